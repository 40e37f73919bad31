"""The shipped road network: its layout, plain XML made from it, and what netconvert builds."""

from pathlib import Path

NETWORK_FILE = Path(__file__).with_name("greenwave.net.xml")
