-- wrk: as traffic_action, with a pause on each connection: about as many requests however fast the answers are
require("traffic_action")
function delay() return 200 end
