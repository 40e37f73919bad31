"""Any city in SUMO: its user's network and routes, one signal logic, and classic controllers."""
