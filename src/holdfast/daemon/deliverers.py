"""Builds the deliverers, one for each kind of address."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from holdfast.config.config import Config
from holdfast.daemon.builtins import BUILTINS
from holdfast.domain.address import KINDS
from holdfast.domain.errors import BadConfig
from holdfast.egress.handler.deliverer import HandlerDeliverer
from holdfast.egress.webhook.deliverer import WebhookDeliverer
from holdfast.egress.webhook.requests import ContractRequests
from holdfast.ingress.webhook import normalizing
from holdfast.ingress.webhook.platforms import find_normalizer
from holdfast.ingress.webhook.platforms.platform import Normalizer
from holdfast.net.guard import Guard
from holdfast.operations.system_events import SystemEvents
from holdfast.ports import Clock
from holdfast.routing.registry import Registry
from holdfast.version import __version__

Handler = Callable[..., object]


def build_handlers(reserved: Mapping[str, Handler], application: Mapping[str, Handler]) -> HandlerDeliverer:
    """`handler:` addresses: the reserved handlers, the built-in ones, and those of the application."""
    handlers = HandlerDeliverer()
    for name, function in reserved.items():
        handlers.add(name, function)
    for name, function in {**BUILTINS, **application}.items():
        if name in reserved:
            raise BadConfig(f"the handler name {name!r} is reserved; choose another name")
        handlers.add(name, function)
    return handlers


def add_inbound(
    handlers: HandlerDeliverer, config: Config, normalizers: Mapping[str, Normalizer], *, required: bool
) -> None:
    """Add the handlers that normalize the stored requests of inbound sources.

    A normalizer that cannot be found is an error, unless it is not `required`: an application that serves no HTTP
    leaves the source to the process that does.
    """
    for source in config.inbound:
        try:
            normalizer = find_normalizer(
                source.normalizer, source.name, normalizers, source.type_header, source.type_field
            )
        except BadConfig:
            if required:
                raise
            continue
        handlers.add(f"inbound.{source.name}", normalizing(source.name, normalizer))


def build_webhooks(
    config: Config, guard: Guard, registry: Registry, system_events: SystemEvents, clock: Clock
) -> WebhookDeliverer:
    """`https:` addresses."""
    return WebhookDeliverer(
        guard,
        ContractRequests(registry, clock).options,
        clock,
        user_agent=f"holdfast/{__version__}",
        trusted=registry.is_trusted,
        gone=system_events.contract_gone,
        concurrency_per_host=config.concurrency_per_host,
        proxies=config.proxies,
        timeout=lambda contract_id: registry.terms_of(contract_id, "https").timeout_s,
        total_s=KINDS["https"].timeout_s,
    )
