"""Small SUMO networks in text, with what is odd in one place each."""

from pathlib import Path

PROGRAM = ("Gr", "yr", "rG", "ry")


def lane(edge: str, shape: str, function: str = "") -> str:
    kind = f' function="{function}"' if function else ""
    return (
        f'<edge id="{edge}"{kind}><lane id="{edge}_0" index="0" speed="13.9" length="75"'
        f' shape="{shape}"/></edge>'
    )


def link(start: str, end: str, index: int, signal: str = "a", extra: str = "") -> str:
    return (
        f'<connection from="{start}" to="{end}" fromLane="0" toLane="0" tl="{signal}"'
        f' linkIndex="{index}" dir="s" {extra}/>'
    )


def program(states: tuple[str, ...], signal: str = "a", name: str = "0") -> str:
    phases = "".join(f'<phase duration="20" state="{state}"/>' for state in states)
    return f'<tlLogic id="{signal}" type="static" programID="{name}" offset="0">{phases}</tlLogic>'


ROADS = (
    lane("west", "-80,0 -5,0")
    + lane("north", "0,80 0,5")
    + lane("east", "5,0 80,0")
    + lane("south", "0,-5 0,-80")
    + '<edge id=":a_0" function="internal">'
    '<lane id=":a_0_0" index="0" speed="13.9" length="10" shape="-5,0 5,0"/></edge>'
    '<edge id=":a_1" function="internal">'
    '<lane id=":a_1_0" index="0" speed="13.9" length="10" shape="0,5 0,-5"/></edge>'
)
LINKS = link("west", "east", 0, extra='via=":a_0_0"') + link(
    "north", "south", 1, extra='via=":a_1_0"'
)
NODE = '<junction id="a" type="traffic_light" x="0" y="0"/>'


def write_net(folder: Path, *parts: str) -> Path:
    path = folder / "town.net.xml"
    path.write_text(f"<net>{''.join(parts)}</net>")
    return path
