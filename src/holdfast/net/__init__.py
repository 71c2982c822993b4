"""HTTP to other hosts: client, connections, the outbound guard, proxies and timeouts."""
