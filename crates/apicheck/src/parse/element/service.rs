//! Building of services and methods.

use prost::Message as _;
use prost_types::{MethodDescriptorProto, ServiceDescriptorProto};

use super::{Builder, split};
use crate::model::{FileId, Method, Service, ServiceId, Symbol};
use crate::parse::names::{Meaning, Wanted, join};

impl Builder<'_> {
    pub(super) fn service(&mut self, scope: &str, proto: &ServiceDescriptorProto) -> ServiceId {
        let id = ServiceId(self.ids.services);
        self.ids.services += 1;
        let name = join(scope, proto.name());
        self.check_methods(&name, proto);
        let methods = self.each(2, &proto.method, |s, method| s.method(&name, method));
        let options = self.options(
            3,
            &name,
            "google.protobuf.ServiceOptions",
            split!(proto.options),
        );
        let service = Service {
            id,
            file: FileId(self.index as u32),
            methods: methods.into_iter().flatten().collect(),
            options,
            source: self.source(),
            name: name.into(),
        };
        self.services.push(service);
        id
    }

    fn method(&mut self, scope: &str, proto: &MethodDescriptorProto) -> Option<Method> {
        let full = join(scope, proto.name());
        let options = self.options(
            4,
            &full,
            "google.protobuf.MethodOptions",
            split!(proto.options),
        );
        let mut message = |tag, name| match self.resolve(&[tag], scope, name, Wanted::Message) {
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
            source: self.source(),
        })
    }
}
