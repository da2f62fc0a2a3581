//! Certificate providers: names that the bootstrap of the clients must have (gRFC A29).

use std::collections::BTreeSet;

use prost_reflect::DynamicMessage;

use super::report::{OnAdvice, report_at};
use crate::path::{FieldPath, Step};
use crate::schema::Message;

/// Messages that name an instance of a certificate provider; the second one is the older form.
const INSTANCES: [&str; 2] = [
    "envoy.extensions.transport_sockets.tls.v3.CertificateProviderPluginInstance",
    "envoy.extensions.transport_sockets.tls.v3.CommonTlsContext.CertificateProviderInstance",
];

/// Whether a message of this type names an instance of a certificate provider.
pub(super) fn is_instance(schema: &'static Message) -> bool {
    INSTANCES.contains(&schema.full_name())
}

/// Reports an instance that is not among `providers`.
pub(super) fn check(
    message: &DynamicMessage,
    providers: &BTreeSet<String>,
    path: &mut FieldPath,
    report: &mut OnAdvice<'_>,
) {
    let name = message.get_field_by_name("instance_name");
    let name = name.as_ref().and_then(|name| name.as_str());
    let name = name.unwrap_or_default();
    if providers.contains(name) {
        return;
    }
    let known: Vec<_> = providers.iter().map(|name| format!("{name:?}")).collect();
    let known = if known.is_empty() {
        "which has none".to_owned()
    } else {
        format!("expected {}", known.join(" or "))
    };
    let text = format!(
        "certificate provider {name:?} is not in the bootstrap, {known}: gRPC clients reject the resource"
    );
    let field = [Step::Field("instance_name")];
    report_at(path, field, "certificate-provider", text, report);
}
