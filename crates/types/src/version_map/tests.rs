//! The conversion, compared with the descriptors of both versions, and with generated messages.

use std::collections::BTreeSet;

use proptest::prelude::*;
use prost::Message as _;
use prost_reflect::DynamicMessage;

use super::names::translator;
use super::*;
use crate::ApiVersion;
use crate::codec::canonical;
use crate::descriptor::{pool, v2_pool};
use crate::generator::Generator;
use crate::schema::{self, Message};

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

/// Given all fields of v2, when they are translated, then a field whose number v3 still has keeps its number. The test
/// fails when a new release of the API renames a field: `corrections` must then say what it means.
#[test]
fn s62_field_with_a_shared_number_keeps_it() {
    let (mut messages, mut fields, mut other) = (0, 0, Vec::new());
    for (v3, v2) in pairs() {
        messages += 1;
        for old in &v2.fields {
            let target = translator(ApiVersion::V3).field(v2.full_name(), old.number);
            if v3.field(old.number).is_some() && target != Some(old.number) {
                other.push(format!(
                    "{}.{} becomes {target:?}",
                    v2.full_name(),
                    old.name
                ));
            }
            fields += 1;
        }
    }
    let expected = [
        // In v3 this is the number of `quic_protocol_options`.
        "envoy.api.v2.listener.QuicProtocolOptions.max_concurrent_streams becomes None",
        // v3 has exchanged the numbers of both addresses, and kept the names.
        "envoy.data.tap.v2alpha.Connection.local_address becomes Some(1)",
    ];
    assert_eq!(other, expected);
    assert!(
        messages > 500 && fields > 1500,
        "{messages} messages, {fields} fields"
    );
}

/// Given the annotations and corrections of v2 and v3, when all pairs are checked, then the only error is a known one.
#[test]
fn s62_annotations_of_v2_and_v3_fit_together() {
    let errors = translator(ApiVersion::V3).check().err().unwrap_or_default();
    assert_eq!(errors, []);
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

/// Returns the rewritten bytes, and whether all fields could be translated.
fn rewritten(from: &'static Message, to: ApiVersion, bytes: &[u8]) -> (Vec<u8>, bool) {
    let mut clean = true;
    let (out, _) = translator(to).rewrite(from.full_name(), bytes, &mut |_, _| clean = false);
    (out.unwrap().1, clean)
}

proptest! {
    /// Given any v3 message, when it is converted to v2, then the result decodes as v2, and converts back to the same
    /// bytes.
    #[test]
    fn s62_conversion_to_v2_and_back_is_lossless(seed: u64) {
        let mut generator = Generator(seed);
        let count = pairs().count();
        let (v3, v2) = pairs().nth(generator.below(count)).unwrap();
        let mut bytes = Vec::new();
        canonical::encode(v3, &generator.message(v3, 4), &mut bytes);

        let (old, clean) = rewritten(v3, ApiVersion::V2, &bytes);
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
