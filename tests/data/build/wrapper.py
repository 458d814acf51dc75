import model
import numpy as np

w = np.arange(1, 5, dtype=np.float32)
ones = np.ones(4, np.float32)
p, z, empty = np.array([True, False, True]), np.array([1 + 1j, 1 + 2j], np.complex64), np.zeros(0, np.int32)
print(model.run)
n, q, y, e = model.run(w, ones, empty=empty, z=z, p=p)
print(n is w, w.tolist(), q.tolist(), y.tolist(), e.tolist())
for arguments in (
    (w, np.ones(5, np.float32), p, z, empty),
    (w, np.ones(4), p, z, empty),
    (w[::-1], ones, p, z, empty),
    (w,),
    (w, ones, p, z, empty, empty),
):
    try:
        model.run(*arguments)
    except model.Error as error:
        print(str(error).partition(": run(")[0])
