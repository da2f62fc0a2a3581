//! Counts discovery responses as they pass, without collecting or decoding them.
//!
//! ```text
//!   ┌────────┐ length ┌─────┐ field, type ┌────────┐ length ┌─────────┐
//!   │ Prefix │ ─────▶ │ Key │ ──────────▶ │ Length │ ─────▶ │ Payload │ skipped, but for version and nonce
//!   └────────┘        └─────┘ ◀───────────└────────┘────────└─────────┘
//!       ▲                │ the message is over
//!       └────────────────┘
//! ```
//!
//! A generator with a thousand streams must spend less per stream than a client: a response of 50 MB costs it its
//! socket reads and a few steps per resource.

use super::super::resources::{LARGE, MARKED};

/// Field numbers that the SotW and the delta response share.
const VERSION: u64 = 1;
const RESOURCES: u64 = 2;
const NONCE: u64 = 5;
/// Only in delta responses; field 6 of a SotW response is the control plane's name, which no server here sends.
const REMOVED: u64 = 6;

const LENGTH_DELIMITED: u64 = 2;
const VARINT: u64 = 0;

/// Contents of one response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) version: Vec<u8>,
    pub(crate) nonce: Vec<u8>,
    pub(crate) resources: usize,
    /// Resources larger than [`LARGE`].
    pub(crate) large: usize,
    /// Resources larger than [`MARKED`], but not than [`LARGE`].
    pub(crate) marked: usize,
    pub(crate) removed: usize,
    /// Total bytes.
    pub(crate) bytes: usize,
}

/// Splits a response body into messages.
#[derive(Debug, Default)]
pub(super) struct Scanner {
    state: ScanState,
    /// Bytes of the message that have not arrived.
    left: usize,
    seen: Seen,
}

#[derive(Debug)]
enum ScanState {
    /// Within gRPC's five prefix bytes: their number so far, and the length as far as it is known.
    Prefix {
        have: u8,
        length: usize,
    },
    Key(Varint),
    /// In a varint field, whose value is not used.
    Value,
    Length {
        field: u64,
        length: Varint,
    },
    Payload {
        field: u64,
        left: usize,
    },
}

impl Default for ScanState {
    fn default() -> Self {
        Self::Prefix { have: 0, length: 0 }
    }
}

#[derive(Debug, Default, Clone, Copy)]
struct Varint {
    value: u64,
    shift: u32,
}

impl Varint {
    /// Returns the value once its last byte has arrived.
    fn push(&mut self, byte: u8) -> Option<u64> {
        self.value |= u64::from(byte & 0x7f).checked_shl(self.shift).unwrap_or(0);
        self.shift += 7;
        (byte & 0x80 == 0).then_some(self.value)
    }
}

impl Scanner {
    /// Takes the next bytes, and reports every message that they complete.
    pub(super) fn push(
        &mut self,
        mut bytes: &[u8],
        mut message: impl FnMut(Seen),
    ) -> Result<(), String> {
        while let Some(&byte) = bytes.first() {
            let taken = match &mut self.state {
                ScanState::Payload { left, .. } => {
                    let taken = bytes.len().min(*left);
                    self.payload(&bytes[..taken]);
                    taken
                }
                _ => {
                    self.step(byte)?;
                    1
                }
            };
            bytes = &bytes[taken..];
            if self.left == 0 && matches!(self.state, ScanState::Key(_)) {
                self.state = ScanState::default();
                message(std::mem::take(&mut self.seen));
            }
        }
        Ok(())
    }

    fn step(&mut self, byte: u8) -> Result<(), String> {
        if let ScanState::Prefix { have, length } = &mut self.state {
            if *have > 0 {
                *length = *length << 8 | usize::from(byte);
            }
            *have += 1;
            if *have == 5 {
                self.left = *length;
                self.seen.bytes = *length;
                self.state = ScanState::Key(Varint::default());
            }
            return Ok(());
        }
        self.left = self
            .left
            .checked_sub(1)
            .ok_or("a message that ends in a field")?;
        match &mut self.state {
            ScanState::Key(key) => {
                if let Some(key) = key.push(byte) {
                    self.state = match (key & 7, key >> 3) {
                        (VARINT, _) => ScanState::Value,
                        (LENGTH_DELIMITED, field) => ScanState::Length {
                            field,
                            length: Varint::default(),
                        },
                        (other, field) => {
                            return Err(format!("field {field} of wire type {other}"));
                        }
                    };
                }
            }
            ScanState::Value if byte & 0x80 == 0 => self.state = ScanState::Key(Varint::default()),
            ScanState::Length { field, length } => {
                let field = *field;
                if let Some(length) = length.push(byte) {
                    self.field(field, length as usize);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Starts a field of this length.
    fn field(&mut self, field: u64, length: usize) {
        match field {
            RESOURCES => {
                self.seen.resources += 1;
                self.seen.large += usize::from(length > LARGE);
                self.seen.marked += usize::from(length > MARKED && length <= LARGE);
            }
            REMOVED => self.seen.removed += 1,
            _ => {}
        }
        self.state = match length {
            0 => ScanState::Key(Varint::default()),
            left => ScanState::Payload { field, left },
        };
    }

    fn payload(&mut self, bytes: &[u8]) {
        let ScanState::Payload { field, left } = &mut self.state else {
            return;
        };
        match *field {
            VERSION => self.seen.version.extend_from_slice(bytes),
            NONCE => self.seen.nonce.extend_from_slice(bytes),
            _ => {}
        }
        *left -= bytes.len();
        self.left = self.left.saturating_sub(bytes.len());
        if *left == 0 {
            self.state = ScanState::Key(Varint::default());
        }
    }
}

#[cfg(test)]
mod tests {
    use oxds_types::discovery::{Any, DeltaDiscoveryResponse, Resource};
    use prost::Message as _;

    use super::*;

    #[test]
    fn responses_are_counted_at_any_split() {
        let resource = |size: usize| Resource {
            name: "a".to_owned(),
            version: "1".to_owned(),
            resource: Some(Any {
                type_url: "t".to_owned(),
                value: vec![7; size].into(),
            }),
            ..Resource::default()
        };
        let response = DeltaDiscoveryResponse {
            system_version_info: "v".to_owned(),
            resources: vec![
                resource(3),
                resource(LARGE),
                resource(MARKED),
                resource(400),
            ],
            removed_resources: vec!["gone".to_owned()],
            nonce: "n12".to_owned(),
            ..DeltaDiscoveryResponse::default()
        };
        let mut bytes = Vec::new();
        for message in [response.clone(), DeltaDiscoveryResponse::default()] {
            bytes.push(0);
            bytes.extend((message.encoded_len() as u32).to_be_bytes());
            message.encode(&mut bytes).unwrap();
        }
        let first = Seen {
            version: b"v".to_vec(),
            nonce: b"n12".to_vec(),
            resources: 4,
            large: 1,
            marked: 1,
            removed: 1,
            bytes: response.encoded_len(),
        };
        for step in 1..bytes.len() {
            let mut scanner = Scanner::default();
            let mut seen = Vec::new();
            for part in bytes.chunks(step) {
                scanner.push(part, |message| seen.push(message)).unwrap();
            }
            assert_eq!(seen, [first.clone(), Seen::default()], "cut every {step}");
        }
    }
}
