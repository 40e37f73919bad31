-- wrk: loans of new mobile numbers. They count up from the clock: a million a second, so no run meets another's.
require("result")
local mobile = (os.time() * 1000000) % 10000000000
wrk.method = "POST"
function request()
  mobile = (mobile + 1) % 10000000000
  return wrk.format(nil, string.format("%s?mobileNumber=%010.0f", wrk.path, mobile))
end
