//! The conversion, compared with the descriptors of both versions, and with generated messages.

use std::collections::BTreeSet;

use proptest::prelude::*;
use prost::Message as _;
use prost_reflect::DynamicMessage;

use super::*;
use crate::ApiVersion;
use crate::codec::canonical;
use crate::descriptor::{pool, v2_pool};
use crate::generator::Generator;
use crate::path::FieldPath;
use crate::schema::{self, Message, Shape};

/// Returns every message that exists in both versions, as (v3, v2).
fn pairs() -> impl Iterator<Item = (&'static Message, &'static Message)> {
    let both = |v3: &str| {
        let v2 = schema::find_in(ApiVersion::V2, v2_name(v3)?)?;
        Some((schema::find_in(ApiVersion::V3, v3)?, v2))
    };
    pool()
        .all_messages()
        .filter_map(move |message| both(message.full_name()))
}

/// The conversion relies on this: a field number has the same meaning in both versions, with two exceptions.
#[test]
fn s62_shared_field_numbers_have_one_meaning() {
    let (mut messages, mut fields, mut other) = (0, 0, Vec::new());
    for (v3, v2) in pairs() {
        messages += 1;
        for field in &v3.fields {
            let Some(old) = v2.field(field.number) else {
                continue;
            };
            let grown = matches!((&field.shape, &old.shape), (Shape::List(_), Shape::One(_)));
            if grown || !rewrite::same_meaning(field, old) {
                other.push(format!("{}.{}", v3.full_name(), field.name));
            }
            fields += 1;
        }
    }
    let expected = [
        // A list since 2022.
        "envoy.config.core.v3.HealthCheck.HttpHealthCheck.receive",
        // In v2 this is the number of `max_concurrent_streams`.
        "envoy.config.listener.v3.QuicProtocolOptions.quic_protocol_options",
    ];
    assert_eq!(other, expected);
    assert!(
        messages > 500 && fields > 1500,
        "{messages} messages, {fields} fields"
    );
}

/// The messages of v2 that v3 removed. The test fails when a new release of the API adds or removes a successor.
#[test]
fn s64_removed_messages_are_known() {
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

/// Returns the rewritten bytes, and whether all fields could be converted.
fn rewritten(from: &'static Message, to: &'static Message, bytes: &[u8]) -> (Vec<u8>, bool) {
    let mut clean = true;
    let out = rewrite(from, to, bytes, &mut FieldPath::default(), &mut |_, _| {
        clean = false;
    });
    (out, clean)
}

proptest! {
    /// Given any v3 message, when it is converted to v2, then the result decodes as v2, and converts back to the same bytes.
    #[test]
    fn s62_conversion_to_v2_and_back_is_lossless(seed: u64) {
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

    /// Arbitrary bytes cause errors, not panics.
    #[test]
    fn s63_arbitrary_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let _ = to_v2("envoy.config.listener.v3.Listener", &bytes);
        let _ = to_v3("envoy.api.v2.Listener", &bytes);
    }
}
