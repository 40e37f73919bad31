"""How many vehicles fit on each incoming lane of the shipped road network.

Per junction in the order of the observation: the lane's length divided by the 7.5 m that a standing
car and the gap before it take.
"""

LANE_CAPACITIES = {
    "joinedS_265580996_300839357": [37.2] * 4 + [39.9] * 4 + [34.1] * 3 + [43.1] * 3,
    "300839359": [35.4, 35.4, 37.2, 37.2, 27.1],
    "265580972": [42.1, 42.1, 35.4, 35.4, 30.6],
    "1270712555": [39.9, 39.9, 44.8, 44.8, 29.8],
    "8541180897": [39.0, 39.0, 34.1, 34.1, 30.6],
}
