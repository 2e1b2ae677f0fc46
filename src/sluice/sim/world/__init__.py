"""The simulated world: `world` runs the cores of `nodes` over `links`, with disks, faults and programs around them."""
