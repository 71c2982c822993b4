"""What `holdfast doctor` looks at on this machine. It needs no daemon, mends nothing and changes nothing."""

from __future__ import annotations
