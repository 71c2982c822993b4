"""Builds the deliverers, one for each kind of address."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.daemon.builtins import BUILTINS
from holdfast.daemon.context import RuntimeContext
from holdfast.domain.address import KINDS
from holdfast.domain.errors import BadConfig
from holdfast.egress.deliverer import Deliverer, DelivererContext, load_deliverers
from holdfast.egress.handler.deliverer import HandlerDeliverer
from holdfast.egress.webhook.deliverer import WebhookDeliverer
from holdfast.egress.webhook.requests import ContractRequests
from holdfast.ingress.webhook import InboundSource, normalizing
from holdfast.ingress.webhook.platforms import find_normalizer
from holdfast.ingress.webhook.platforms.platform import Normalizer
from holdfast.version import __version__

Handler = Callable[..., object]


@dataclass(frozen=True, slots=True)
class Deliverers:
    """The deliverers that need more than a `DelivererContext`. The others are loaded by name."""

    handlers: HandlerDeliverer
    webhooks: WebhookDeliverer
    others: list[Deliverer] = field(default_factory=list)

    def add(self, deliverer: Deliverer) -> None:
        self.others.append(deliverer)

    def load(self, context: RuntimeContext) -> dict[str, Deliverer]:
        """All of them, by kind of address."""
        return load_deliverers(
            [self.handlers, self.webhooks, *self.others], DelivererContext(context.clock, context.guard)
        )

    def served(self) -> frozenset[str]:
        """The `handler:` addresses that this process serves."""
        return self.handlers.serves() or frozenset()


def build_deliverers(
    context: RuntimeContext,
    reserved: Mapping[str, Handler],
    application: Mapping[str, Handler],
    normalizers: Mapping[str, Normalizer],
) -> Deliverers:
    handlers = _build_handlers(reserved, application)
    inbound = inbound_handlers(context.config.inbound, normalizers, required=context.home is not None)
    for name, function in inbound.items():
        handlers.add(name, function)
    return Deliverers(handlers, _build_webhooks(context))


def _build_handlers(reserved: Mapping[str, Handler], application: Mapping[str, Handler]) -> HandlerDeliverer:
    """`handler:` addresses: the reserved handlers, the built-in ones, and those of the application."""
    handlers = HandlerDeliverer()
    for name, function in reserved.items():
        handlers.add(name, function)
    for name, function in {**BUILTINS, **application}.items():
        if name in reserved:
            raise BadConfig(f"the handler name {name!r} is reserved; choose another name")
        handlers.add(name, function)
    return handlers


def inbound_handlers(
    sources: Sequence[InboundSource], normalizers: Mapping[str, Normalizer], *, required: bool
) -> dict[str, Handler]:
    """The handlers that normalize the stored requests of inbound sources, by name.

    A normalizer that cannot be found is an error, unless it is not `required`: an application that serves no HTTP
    leaves the source to the process that does.
    """
    handlers: dict[str, Handler] = {}
    for source in sources:
        try:
            normalizer = find_normalizer(
                source.normalizer, source.name, normalizers, source.type_header, source.type_field
            )
        except BadConfig:
            if required:
                raise
            continue
        handlers[f"inbound.{source.name}"] = normalizing(source.name, normalizer)
    return handlers


def _build_webhooks(context: RuntimeContext) -> WebhookDeliverer:
    """`https:` addresses."""
    config, registry = context.config, context.registry
    return WebhookDeliverer(
        context.guard,
        ContractRequests(registry, context.clock).options,
        context.clock,
        user_agent=f"holdfast/{__version__}",
        trusted=registry.is_trusted,
        gone=context.system_events.contract_gone,
        concurrency_per_host=config.concurrency_per_host,
        proxies=config.proxies,
        timeout=lambda contract_id: registry.terms_of(contract_id, "https").timeout_s,
        total_s=KINDS["https"].timeout_s,
    )
