#!/usr/bin/env bash
# From a SUMO network to a trained policy, and a page that compares it with classic controllers.
# Replace the network and the counts by yours.
set -euo pipefail
mkdir -p "${1:?Usage: own_city.sh FOLDER}" && cd "$1"

netgenerate --grid --grid.number 2 --grid.attach-length 100 --default-junction-type traffic_light \
    --default.lanenumber 2 --output-file town.net.xml

greenwave network import town.net.xml --output town.json
greenwave network show town.json --output town.svg

cat > entries.csv <<TABLE
edge,vehicles_per_hour
left0A0,600
left1A1,300
bottom0A0,400
TABLE
greenwave lab demand town.net.xml --entries entries.csv --end 900 --output town.rou.xml

TRAFFIC=(--network town.json --net town.net.xml --routes town.rou.xml --begin 0 --end 900 --counts all)
python -m lab.train "${TRAFFIC[@]}" --imitation-rounds 4 --iterations 4 --output training
greenwave lab evaluate "${TRAFFIC[@]}" --seeds 3 --policy training/best.th --output evaluation
