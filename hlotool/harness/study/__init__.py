"""When does compiling pay?  Measured as Neill, Drebes and Pop ask it of multilayer perceptrons ("Automated Analysis of
the Performance of Just-in-Time compilation in TensorFlow"), and of the parts of any module.

- `mlp.py`: the perceptron, its data and its training step as a module; `trainers.py`: ways to run that step;
  `peers.py`, `peer_child.py`: TensorFlow and PyTorch, in processes of their own
- `point.py`: one configuration measured
- `counters.py`: cache misses, where the processor counts them
- `worth.py`: what every fusion and cluster of a module brings, predicted and measured, and the rule that follows
"""
