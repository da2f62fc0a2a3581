//! Building of services and methods.

use prost::Message as _;
use prost_types::{MethodDescriptorProto, ServiceDescriptorProto};

use super::{Builder, clash, split};
use crate::model::{FileId, Method, Service, ServiceId, Symbol};
use crate::parse::names::{Meaning, Wanted, join};

/// Builds a service.
pub(super) fn service(
    builder: &mut Builder<'_>,
    scope: &str,
    proto: &ServiceDescriptorProto,
) -> ServiceId {
    let id = ServiceId(builder.ids.services);
    builder.ids.services += 1;
    let name = join(scope, proto.name());
    clash::check_methods(&mut builder.cursor, &name, proto);
    let methods = builder.each(2, &proto.method, |s, one| method(s, &name, one));
    let options = builder.options(
        3,
        &name,
        "google.protobuf.ServiceOptions",
        split!(proto.options),
    );
    let service = Service {
        id,
        file: FileId(builder.index as u32),
        methods: methods.into_iter().flatten().collect(),
        options,
        source: builder.cursor.source(),
        name: name.into(),
    };
    builder.services.push(service);
    id
}

fn method(builder: &mut Builder<'_>, scope: &str, proto: &MethodDescriptorProto) -> Option<Method> {
    let full = join(scope, proto.name());
    let options = builder.options(
        4,
        &full,
        "google.protobuf.MethodOptions",
        split!(proto.options),
    );
    let mut message = |tag, name| match builder.resolve(&[tag], scope, name, Wanted::Message) {
        Some(Meaning::Symbol(Symbol::Message(id))) => Some(id),
        _ => None,
    };
    let (input, output) = (
        message(2, proto.input_type()),
        message(3, proto.output_type()),
    );
    Some(Method {
        name: proto.name().into(),
        input: input?,
        output: output?,
        client_streaming: proto.client_streaming(),
        server_streaming: proto.server_streaming(),
        options,
        source: builder.cursor.source(),
    })
}
