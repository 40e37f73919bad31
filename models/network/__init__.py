"""The road network: its layout, plain XML made from it, and the net that netconvert builds."""

from pathlib import Path

NETWORK_FILE = Path(__file__).with_name("greenwave.net.xml")
