//! Resources with a TTL, and heartbeats (S-49).
//!
//! ```text
//!  delta:  resources[]: Resource { version, name, resource, ttl }           heartbeat: the same without `resource`
//!  SotW:   resources[]: Any { Resource { version, name, resource, ttl } }
//! ```
//!
//! Only clients that declare support for TTLs get them, and only resources with a TTL are wrapped.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use oxds_types::{ApiVersion, Version, discovery};
use prost::Message;

use super::form::Form;
use super::wire::{
    ANY_TYPE_URL, ANY_VALUE, RESOURCE_NAME, RESOURCE_TTL, RESOURCE_VERSION, RESOURCES, field_len,
    put_field, put_header,
};
use crate::protocol::Protocol;

/// Encodes the element of a resource with a TTL. `fields` are the other fields of its `Resource`.
pub(super) fn element(form: Form, fields: &[u8], ttl: Duration) -> Bytes {
    let ttl = discovery::Duration {
        seconds: i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(ttl.subsec_nanos()).unwrap_or_default(),
    };
    let ttl = ttl.encode_to_vec();
    let len = fields.len() + field_len(RESOURCE_TTL, ttl.len());
    let type_url = match form.api {
        ApiVersion::V3 => "type.googleapis.com/envoy.service.discovery.v3.Resource",
        ApiVersion::V2 => "type.googleapis.com/envoy.api.v2.Resource",
    };
    let mut out = BytesMut::with_capacity(len + type_url.len() + 32);
    match form.protocol {
        Protocol::Delta => put_header(&mut out, RESOURCES, len),
        // xDS protocol, "Resource TTL": a SotW resource with a TTL is wrapped in a `Resource`.
        Protocol::Sotw => {
            let any = field_len(ANY_TYPE_URL, type_url.len()) + field_len(ANY_VALUE, len);
            put_header(&mut out, RESOURCES, any);
            put_field(&mut out, ANY_TYPE_URL, type_url.as_bytes());
            put_header(&mut out, ANY_VALUE, len);
        }
    }
    out.put_slice(fields);
    put_field(&mut out, RESOURCE_TTL, &ttl);
    out.freeze()
}

/// Encodes a heartbeat: name, version and TTL of a resource, without its body.
pub(crate) fn heartbeat(form: Form, name: &str, version: Version, ttl: Duration) -> Bytes {
    let mut fields = BytesMut::with_capacity(name.len() + 32);
    put_field(&mut fields, RESOURCE_VERSION, version.as_str().as_bytes());
    put_field(&mut fields, RESOURCE_NAME, name.as_bytes());
    element(form, &fields, ttl)
}
