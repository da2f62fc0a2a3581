//! The map against the descriptors of both versions, and against messages made up.

use std::collections::BTreeSet;

use proptest::prelude::*;
use prost::Message as _;
use prost_reflect::DynamicMessage;

use super::*;
use crate::codec::canonical;
use crate::descriptor::{pool, v2_pool};
use crate::generator::Generator;
use crate::schema::Shape;

/// Every message that has a form in both versions.
fn pairs() -> impl Iterator<Item = (&'static Message, &'static Message)> {
    let both = |v3: &str| {
        let v2 = schema::find_in(ApiVersion::V2, v2_name(v3)?)?;
        Some((schema::find_in(ApiVersion::V3, v3)?, v2))
    };
    pool()
        .all_messages()
        .filter_map(move |message| both(message.full_name()))
}

/// A number means the same in both versions, which lets bytes pass from one to the other, but for two.
#[test]
fn s62_shared_fields_have_one_type() {
    let (mut messages, mut fields, mut other) = (0, 0, Vec::new());
    for (v3, v2) in pairs() {
        messages += 1;
        for field in &v3.fields {
            let Some(old) = v2.field(field.number) else {
                continue;
            };
            let grown = matches!((&field.shape, &old.shape), (Shape::List(_), Shape::One(_)));
            if grown || !rewrite::are_one(field, old) {
                other.push(format!("{}.{}", v3.full_name(), field.name));
            }
            fields += 1;
        }
    }
    let expected = [
        // A list since 2022.
        "envoy.config.core.v3.HealthCheck.HttpHealthCheck.receive",
        // The number was that of `max_concurrent_streams`.
        "envoy.config.listener.v3.QuicProtocolOptions.quic_protocol_options",
    ];
    assert_eq!(other, expected);
    assert!(
        messages > 500 && fields > 1500,
        "{messages} messages, {fields} fields"
    );
}

/// Of what v2 had, these have no successor: the API gave them up. A successor that a new release of
/// the API brings, or takes away, shows here.
#[test]
fn s64_what_has_no_successor() {
    let resources = |name: &str| {
        ["envoy.admin.", "envoy.service.", "envoy.data."]
            .iter()
            .all(|other| !name.starts_with(other))
    };
    let lost: BTreeSet<String> = v2_pool()
        .all_messages()
        .filter(|message| !message.is_map_entry() && message.full_name().starts_with("envoy."))
        .map(|message| message.full_name().to_owned())
        .filter(|name| {
            resources(name) && v3_name(name).is_none() && pool().get_message_by_name(name).is_none()
        })
        .collect();
    let expected = [
        "envoy.api.v2.UpstreamBindConfig",
        "envoy.config.filter.http.dynamo.v2.Dynamo",
        "envoy.config.filter.http.squash.v2.Squash",
        "envoy.config.filter.network.client_ssl_auth.v2.ClientSSLAuth",
        "envoy.config.filter.network.kafka_broker.v2alpha1.KafkaBroker",
        "envoy.config.filter.network.mysql_proxy.v1alpha1.MySQLProxy",
        "envoy.config.filter.network.tcp_proxy.v2.TcpProxy.DeprecatedV1",
        "envoy.config.filter.network.tcp_proxy.v2.TcpProxy.DeprecatedV1.TCPRoute",
        "envoy.config.grpc_credential.v2alpha.AwsIamConfig",
        "envoy.config.trace.v2.OpenCensusConfig",
    ];
    assert_eq!(lost, expected.map(str::to_owned).into());
}

/// The bytes that `rewrite` makes, and whether nothing was in the way.
fn rewritten(from: &'static Message, to: &'static Message, bytes: &[u8]) -> (Vec<u8>, bool) {
    let mut clean = true;
    let out = rewrite(from, to, bytes, &mut Path::default(), &mut |_, _| {
        clean = false;
    });
    (out, clean)
}

proptest! {
    /// Given any message of v3, without what v2 lacks, then it decodes as v2, and comes back as it went.
    #[test]
    fn s62_there_and_back(seed: u64) {
        let mut generator = Generator(seed);
        let count = pairs().count();
        let (v3, v2) = pairs().nth(generator.below(count)).unwrap();
        let mut bytes = Vec::new();
        canonical::encode(v3, &generator.message(v3, 4), &mut bytes);

        let (old, clean) = rewritten(v3, v2, &bytes);
        prop_assert_eq!(to_v2(v3.full_name(), &bytes).is_ok(), clean);
        DynamicMessage::decode(v2.descriptor.clone(), old.as_slice()).unwrap();
        let new = to_v3(v2.full_name(), &old).unwrap();
        let again = to_v2(v3.full_name(), &new).unwrap();
        prop_assert_eq!(to_v3(v2.full_name(), &again).unwrap(), &new[..]);
        if clean {
            let decode = |bytes: &[u8]| DynamicMessage::decode(v3.descriptor.clone(), bytes).unwrap();
            prop_assert!(new == bytes || decode(&new).encoded_len() >= bytes.len());
        }
    }

    /// Bytes that are no message are refused, whatever they are.
    #[test]
    fn s63_any_bytes_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let _ = to_v2("envoy.config.listener.v3.Listener", &bytes);
        let _ = to_v3("envoy.api.v2.Listener", &bytes);
    }
}
