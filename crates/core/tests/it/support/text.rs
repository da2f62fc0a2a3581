//! Resources as protobuf text, checked against the API's descriptors.

use bytes::Bytes;
use oxds_core::resource::Typed;
use oxds_types::ResourceType;
use prost::Message;
use prost_reflect::DynamicMessage;

/// Encoded resource, as a control plane sends it.
pub(crate) fn bytes(resource_type: &ResourceType, text: &str) -> Bytes {
    let descriptor =
        oxds_types::descriptor::message(resource_type.message()).expect("a known message");
    match DynamicMessage::parse_text_format(descriptor, text) {
        Ok(message) => message.encode_to_vec().into(),
        Err(error) => panic!("{error:?} in {text}"),
    }
}

/// Parses a resource, or returns the rule that it breaks.
pub(crate) fn parse<T: Typed>(text: &str) -> Result<T, String> {
    T::parse(&bytes(&T::resource_type(), text)).map_err(|invalid| invalid.to_string())
}

/// Parses a valid resource.
pub(crate) fn accepted<T: Typed>(text: &str) -> T {
    parse(text).unwrap_or_else(|error| panic!("{error} in {text}"))
}

/// Returns the rule that an invalid resource breaks.
pub(crate) fn rejected<T: Typed>(text: &str) -> String {
    match parse::<T>(text) {
        Ok(_) => panic!("accepted: {text}"),
        Err(error) => error,
    }
}
