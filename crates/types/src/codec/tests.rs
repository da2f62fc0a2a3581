//! Every message of the API survives a round trip through JSON and YAML, and its bytes are canonical.

use proptest::prelude::*;
use prost_reflect::DynamicMessage;
use serde::de::DeserializeSeed;

use super::document::yaml_options;
use super::encode::MessageView;
use super::tree::MessageSeed;
use super::walk::{Context, Walk};
use super::*;
use crate::descriptor;
use crate::error::Reason;
use crate::generator::Generator;
use crate::schema::{self, Message, WellKnown};

fn bytes(schema: &'static Message, message: &DynamicMessage) -> Vec<u8> {
    let mut bytes = Vec::new();
    canonical::encode(schema, message, &mut bytes);
    bytes
}

/// Reads a text that must have no errors.
fn read<E: std::fmt::Debug>(
    schema: &'static Message,
    deserialize: impl FnOnce(MessageSeed<'_>) -> Result<DynamicMessage, E>,
) -> Vec<u8> {
    let options = Options::default();
    let walk = Walk::new(&options);
    let context = Context {
        walk: &walk,
        options: &options,
    };
    let message = deserialize(MessageSeed { schema, context }).unwrap();
    let findings = walk.finish().findings;
    // Generated messages break rules.
    let serious = findings
        .iter()
        .find(|finding| !matches!(finding.reason, Reason::Rule { .. }));
    assert!(serious.is_none(), "{serious:?}");
    bytes(schema, &message)
}

proptest! {
    #[test]
    fn every_message_round_trips_through_json_and_yaml(seed: u64) {
        let mut generator = Generator(seed);
        let all = descriptor::pool().all_messages();
        let nth = generator.below(all.len());
        let descriptor = descriptor::pool().all_messages().nth(nth).unwrap();
        prop_assume!(!descriptor.is_map_entry());
        // Proto2 is used only by the descriptors themselves.
        prop_assume!(descriptor.parent_file().syntax() == prost_reflect::Syntax::Proto3);
        let schema = schema::find(descriptor.full_name()).unwrap();
        let message = generator.message(schema, 3);
        let expected = bytes(schema, &message);

        let decoded = DynamicMessage::decode(descriptor, expected.as_slice()).unwrap();
        prop_assert_eq!(bytes(schema, &decoded), &expected[..], "canonical bytes decode");

        // A top-level `Value` of null is written as `null`, which reads as an unset message.
        prop_assume!(schema.well_known != Some(WellKnown::Other) || !expected.is_empty());
        let view = MessageView { schema, message: &message };
        let json = serde_json::to_string(&view).unwrap();
        let again = read(schema, |seed| {
            seed.deserialize(&mut serde_json::Deserializer::from_str(&json))
        });
        prop_assert!(again == expected, "{}", json);

        let yaml = serde_saphyr::to_string(&view).unwrap();
        let again = read(schema, |seed| {
            serde_saphyr::with_deserializer_from_str_with_options(
                &yaml, yaml_options(yaml.len()), |deserializer| seed.deserialize(deserializer),
            )
        });
        prop_assert!(again == expected, "{}", yaml);
    }
}
