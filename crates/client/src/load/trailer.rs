//! ORCA reports in the trailers of an RPC (gRFC A51).

use http::{HeaderMap, HeaderName};
use oxds_types::orca::{OrcaLoadReport, TRAILER};
use prost::Message;
use tonic::metadata::MetadataMap;

/// Returns the ORCA report of an RPC in its trailers (gRFC A51); `None` if it is absent or invalid.
#[must_use]
pub fn orca(trailers: &HeaderMap) -> Option<OrcaLoadReport> {
    let name = HeaderName::from_static(TRAILER);
    let value = trailers.get(&name)?.clone();
    // tonic's `MetadataMap` decodes the base64 of binary headers.
    let alone = MetadataMap::from_headers(HeaderMap::from_iter([(name, value)]));
    let bytes = alone.get_bin(TRAILER)?.to_bytes().ok()?;
    OrcaLoadReport::decode(bytes).ok()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn read(value: &str) -> Option<OrcaLoadReport> {
        let value = HeaderValue::from_str(value).unwrap();
        orca(&HeaderMap::from_iter([(
            HeaderName::from_static(TRAILER),
            value,
        )]))
    }

    /// Given cpu_utilization 0.5 and named_metrics {"queue": 3} as protoc encodes them, with and without base64
    /// padding.
    #[test]
    fn c143_orca_trailer_is_decoded() {
        let report = OrcaLoadReport {
            cpu_utilization: 0.5,
            named_metrics: [("queue".to_owned(), 3.0)].into(),
            ..OrcaLoadReport::default()
        };
        assert_eq!(read("CQAAAAAAAOA/QhAKBXF1ZXVlEQAAAAAAAAhA"), Some(report));
        assert_eq!(
            read("EQAAAAAAAOA/").map(|report| report.mem_utilization),
            Some(0.5)
        );
        assert_eq!(read("not base64!"), None);
        assert_eq!(read("/////w"), None);
        assert_eq!(orca(&HeaderMap::new()), None);
    }
}
