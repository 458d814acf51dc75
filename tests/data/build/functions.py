from pathlib import Path

import model
import numpy as np

x = np.ones((2, 300), np.float32)
try:
    model.run(x)
except model.Error as error:
    print(error)
model.functions["double it"] = lambda d: 1 / 0
try:
    model.run(x)
except ZeroDivisionError as error:
    print(type(error).__name__)
model.functions["double it"] = lambda d: 2 * d
print(model.run(x)[0, 0])
path = Path("model.weights")
data = bytearray(path.read_bytes())
data[1000] ^= 1
Path("damaged").write_bytes(data)
try:
    model.load_weights("damaged")
except model.Error as error:
    print(error)
