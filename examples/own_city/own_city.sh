#!/usr/bin/env bash
# From a SUMO network to a page that compares controllers on it. Replace the network and the counts by yours.
set -euo pipefail
mkdir -p "${1:?Usage: own_city.sh FOLDER}" && cd "$1"

netgenerate --grid --grid.number 2 --grid.attach-length 100 --default-junction-type traffic_light \
    --default.lanenumber 2 --output-file town.net.xml

greenwave network import town.net.xml --output town.json
greenwave network show town.json --output town.png

cat > entries.csv <<TABLE
edge,vehicles_per_hour
left0A0,600
left1A1,300
bottom0A0,400
TABLE
greenwave demand town.net.xml --entries entries.csv --end 900 --output town.rou.xml

greenwave evaluate --network town.json --net town.net.xml --routes town.rou.xml --begin 0 --end 900 \
    --seeds 3 --output evaluation
