//! ORCA reports out of band: the messages of the stream that a backend sends them on (gRFC A51).

use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use envoy_types::pb::google::protobuf;
use oxds_types::orca::{OrcaLoadReport, OrcaLoadReportRequest};
use prost::Message;

/// Length of the compression flag and the message length before each message.
const PREFIX: usize = 5;

/// Longest report: the longest message that gRPC accepts by default.
const MAX_REPORT: usize = 4 << 20;

/// Returns the body of the request for reports with this time between them.
#[must_use]
pub fn report_request(interval: Duration) -> Bytes {
    let request = OrcaLoadReportRequest {
        report_interval: Some(protobuf::Duration {
            // A period of the configuration fits.
            seconds: i64::try_from(interval.as_secs()).unwrap_or(i64::MAX),
            nanos: i32::try_from(interval.subsec_nanos()).unwrap_or_default(),
        }),
        request_cost_names: Vec::new(),
    };
    let length = request.encoded_len();
    let mut body = BytesMut::with_capacity(PREFIX + length);
    body.put_u8(0);
    body.put_u32(u32::try_from(length).unwrap_or_default());
    body.put(request.encode_to_vec().as_slice());
    body.freeze()
}

/// Reader of a stream of reports.
#[derive(Debug, Default)]
pub struct ReportReader {
    received: BytesMut,
}

/// Reason why a stream has no further reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The message is longer than 4 MiB.
    #[error("load report of {0} bytes: expected at most 4 MiB")]
    TooLong(usize),
    /// The message is compressed, which was not offered.
    #[error("compressed load report: expected an uncompressed one")]
    Compressed,
    /// The message is not an `OrcaLoadReport`.
    #[error("malformed load report: expected xds.data.orca.v3.OrcaLoadReport")]
    Malformed,
}

impl ReportReader {
    /// Adds a part of the stream.
    pub fn push(&mut self, data: &[u8]) {
        self.received.put(data);
    }

    /// Takes the next report; `None` if it is not complete yet.
    ///
    /// # Errors
    /// [`ReportError`]; then the stream cannot be read any further.
    pub fn take(&mut self) -> Result<Option<OrcaLoadReport>, ReportError> {
        let Some([compressed, length @ ..]) = self.received.first_chunk::<PREFIX>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*length) as usize;
        if *compressed != 0 {
            return Err(ReportError::Compressed);
        }
        if length > MAX_REPORT {
            return Err(ReportError::TooLong(length));
        }
        if self.received.len() < PREFIX + length {
            return Ok(None);
        }
        self.received.advance(PREFIX);
        let report = OrcaLoadReport::decode(self.received.split_to(length));
        report.map(Some).map_err(|_| ReportError::Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(message: &[u8]) -> Vec<u8> {
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        [&[0][..], &length, message].concat()
    }

    #[test]
    fn c250_request_has_the_interval() {
        // given 1.5 s as protoc encodes it: report_interval { seconds: 1, nanos: 500000000 }
        let expected = b"\x0a\x08\x08\x01\x10\x80\xca\xb5\xee\x01";
        assert_eq!(
            report_request(Duration::from_millis(1500)),
            framed(expected)
        );
    }

    #[test]
    fn c250_reports_are_read_from_any_parts() {
        let report = OrcaLoadReport {
            application_utilization: 0.5,
            rps_fractional: 100.0,
            ..OrcaLoadReport::default()
        };
        let stream = [framed(&report.encode_to_vec()), framed(b"")].concat();
        for size in 1..stream.len() {
            let mut reader = ReportReader::default();
            let mut read = Vec::new();
            for part in stream.chunks(size) {
                reader.push(part);
                while let Some(report) = reader.take().unwrap() {
                    read.push(report);
                }
            }
            assert_eq!(read, [report.clone(), OrcaLoadReport::default()]);
        }
    }

    #[test]
    fn c250_bad_reports_are_errors() {
        for (stream, error) in [
            (framed(b"\xff\xff"), ReportError::Malformed),
            (vec![1, 0, 0, 0, 0], ReportError::Compressed),
            (vec![0, 1, 0, 0, 0], ReportError::TooLong(1 << 24)),
        ] {
            let mut reader = ReportReader::default();
            reader.push(&stream);
            assert_eq!(reader.take(), Err(error));
        }
    }
}
