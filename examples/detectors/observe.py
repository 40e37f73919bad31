"""Turn the readings of a junction's detectors into observations for the gateway."""

import argparse
import json

from models.networks.file import read_network_file
from models.signals.detection import JunctionDetection, Reading

MIN_GREEN_S = 5


def main(network: str, intervals: str, interval_s: float) -> None:
    junction = read_network_file(network).junctions[0]
    detection = JunctionDetection(junction)
    memory = detection.start  # start again where the hidden states are reset
    with open(intervals, encoding="utf-8") as lines:
        for line in map(json.loads, lines):
            phase, green_s = line["phase"], line["green_s"]
            readings = {name: Reading(*read) for name, read in line["readings"].items()}
            memory, standing, _ = detection(memory, readings, phase, green_s, interval_s)
            one_hot = [int(each == phase) for each in range(len(junction.phases))]
            queues = [round(each, 1) for each in standing]
            # run.act(junction.id, observation, vehicle_counts=True) sends it
            print([*one_hot, int(green_s >= MIN_GREEN_S), *queues])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("network", help="network file that declares the detectors")
    parser.add_argument("intervals", help="a line of JSON for each interval")
    parser.add_argument("--interval", type=float, default=5, help="seconds")
    main(*vars(parser.parse_args()).values())
