-- wrk: the loans that load_tests/bench_records.py has made, in a random order
require("result")
function request()
  return wrk.format("GET", string.format("%s?mobileNumber=%d", wrk.path, 5000000000 + math.random(0, 999)))
end
