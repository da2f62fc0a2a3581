//! Frames: the records of a file, each with its checksums.
//!
//! ```text
//!  preamble   0 "oxds state"   12 format   16 salt   24 checksum of the bytes before
//!  frame      0 "oxF:"   4 kind   8 length   12 number   16 checksum of the bytes before
//!             24 checksum of the content   32 content
//! ```
//!
//! A frame is written after the end of the file, so a crash leaves complete frames and then, perhaps, a part of one.
//! Numbers are little-endian. The salt differs between files: bytes of another file are never taken for a frame.

use bytes::{Buf as _, Bytes};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Length of the preamble.
const PREAMBLE: usize = 32;
/// Length of the head of a frame.
const HEAD: usize = 32;
/// First bytes of each file. The preamble is the same in all formats.
const FILE_MARK: &[u8; 12] = b"oxds state\0\0";
/// First bytes of each frame.
const FRAME_MARK: &[u8; 4] = b"oxF:";

/// Writer of the frames of one file.
#[derive(Debug, Clone)]
pub(crate) struct FrameWriter {
    salt: u64,
    number: u32,
}

/// Reader of the frames of one file.
#[derive(Debug, Clone)]
pub(crate) struct Frames {
    rest: Bytes,
    at: usize,
    salt: u64,
    number: u32,
}

/// A record.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) content: Bytes,
}

/// Bytes that are not a frame.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("no complete record at byte {at}")]
pub(crate) struct Broken {
    pub(crate) at: usize,
    /// Whether no complete frame follows: the rest of a frame that was being written when the process or the machine
    /// stopped.
    pub(crate) is_tail: bool,
}

/// Why a file has no frames that can be read.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum Unreadable {
    #[error("not a state file of oxds")]
    NoMark,
    #[error("format {found}, expected {expected}")]
    Format { found: u32, expected: u32 },
    #[error("the checksum of the preamble is wrong")]
    Checksum,
}

impl FrameWriter {
    /// Begins a file: adds its preamble to `out`.
    pub(crate) fn begin(format: u32, salt: u64, out: &mut Vec<u8>) -> Self {
        let start = out.len();
        out.extend_from_slice(FILE_MARK);
        out.extend_from_slice(&format.to_le_bytes());
        out.extend_from_slice(&salt.to_le_bytes());
        let check = xxh3_64_with_seed(&out[start..], 0);
        out.extend_from_slice(&check.to_le_bytes());
        Self { salt, number: 0 }
    }

    /// Adds a frame to `out`. Returns whether its content fits into a frame: 4 GiB.
    #[must_use]
    pub(crate) fn add(&mut self, kind: u8, content: &[u8], out: &mut Vec<u8>) -> bool {
        let Ok(length) = u32::try_from(content.len()) else {
            return false;
        };
        let start = out.len();
        out.extend_from_slice(FRAME_MARK);
        out.extend_from_slice(&[kind, 0, 0, 0]);
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&self.number.to_le_bytes());
        let head = xxh3_64_with_seed(&out[start..], self.salt);
        out.extend_from_slice(&head.to_le_bytes());
        out.extend_from_slice(&xxh3_64_with_seed(content, head).to_le_bytes());
        out.extend_from_slice(content);
        self.number = self.number.wrapping_add(1);
        true
    }
}

impl Frames {
    /// Begins to read a file of this format.
    pub(crate) fn read(file: &Bytes, format: u32) -> Result<Self, Unreadable> {
        let Some(preamble) = file.get(..PREAMBLE) else {
            return Err(Unreadable::NoMark);
        };
        if !preamble.starts_with(FILE_MARK) {
            return Err(Unreadable::NoMark);
        }
        let mut fields = &preamble[FILE_MARK.len()..];
        let (found, salt, check) = (
            fields.get_u32_le(),
            fields.get_u64_le(),
            fields.get_u64_le(),
        );
        if xxh3_64_with_seed(&preamble[..PREAMBLE - 8], 0) != check {
            return Err(Unreadable::Checksum);
        }
        if found != format {
            return Err(Unreadable::Format {
                found,
                expected: format,
            });
        }
        Ok(Self {
            rest: file.slice(PREAMBLE..),
            at: PREAMBLE,
            salt,
            number: 0,
        })
    }

    /// Returns the next frame, or `None` at the end of the file.
    pub(crate) fn next(&mut self) -> Result<Option<Frame>, Broken> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let frame = self
            .frame_at(0)
            .filter(|(number, _)| *number == self.number);
        let Some((_, frame)) = frame else {
            return Err(Broken {
                at: self.at,
                is_tail: !self.continues(),
            });
        };
        let length = HEAD + frame.content.len();
        self.rest.advance(length);
        self.at += length;
        self.number = self.number.wrapping_add(1);
        Ok(Some(frame))
    }

    /// Returns the length of the file up to here.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// Returns the writer that continues the file here.
    pub(crate) fn writer(&self) -> FrameWriter {
        FrameWriter {
            salt: self.salt,
            number: self.number,
        }
    }

    /// Whether a complete frame of this file comes later: then the bytes here are damaged, not unwritten.
    fn continues(&self) -> bool {
        let marks = self.rest.windows(FRAME_MARK.len()).enumerate();
        let mut marks = marks.filter(|(_, bytes)| bytes == FRAME_MARK);
        marks.any(|(at, _)| {
            let later = self.frame_at(at);
            later.is_some_and(|(number, _)| number > self.number)
        })
    }

    /// Returns the complete frame at a place of the rest, with its number.
    fn frame_at(&self, at: usize) -> Option<(u32, Frame)> {
        let rest = self.rest.get(at..)?;
        let mut head = rest.get(..HEAD)?;
        let is_head = head.starts_with(FRAME_MARK);
        let checked = &head[..16];
        head.advance(FRAME_MARK.len());
        let kind = head.get_u8();
        head.advance(3);
        let (length, number) = (head.get_u32_le() as usize, head.get_u32_le());
        let (check, content_check) = (head.get_u64_le(), head.get_u64_le());
        if !is_head || xxh3_64_with_seed(checked, self.salt) != check {
            return None;
        }
        let start = at + HEAD;
        let content = self.rest.get(start..)?.get(..length)?;
        if xxh3_64_with_seed(content, check) != content_check {
            return None;
        }
        let content = self.rest.slice(start..start + length);
        Some((number, Frame { kind, content }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(contents: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = FrameWriter::begin(1, 7, &mut out);
        for content in contents {
            assert!(writer.add(3, content, &mut out));
        }
        out
    }

    fn read(file: &[u8]) -> Result<(Vec<Bytes>, Option<Broken>), Unreadable> {
        let mut frames = Frames::read(&Bytes::copy_from_slice(file), 1)?;
        let mut contents = Vec::new();
        loop {
            match frames.next() {
                Ok(Some(frame)) => contents.push(frame.content),
                Ok(None) => return Ok((contents, None)),
                Err(broken) => return Ok((contents, Some(broken))),
            }
        }
    }

    #[test]
    fn state_frames_are_read_as_they_were_written() {
        let file = file(&[b"one", b"", b"three"]);
        let (contents, broken) = read(&file).unwrap();
        assert_eq!(contents, ["one", "", "three"]);
        assert_eq!(broken, None);
    }

    /// Given a file that was cut anywhere, then its complete frames are read, and the rest is the tail of one.
    #[test]
    fn state_cut_file_has_its_complete_frames() {
        let file = file(&[b"one", b"", b"three"]);
        let ends = [PREAMBLE, PREAMBLE + 35, PREAMBLE + 67, file.len()];
        for len in PREAMBLE..file.len() {
            let (contents, broken) = read(&file[..len]).unwrap();
            let complete = ends.iter().filter(|end| **end <= len).count() - 1;
            assert_eq!(contents.len(), complete, "{len}");
            let is_tail = broken.map(|broken| broken.is_tail);
            assert_eq!(is_tail, (!ends.contains(&len)).then_some(true), "{len}");
        }
        assert_eq!(read(&file[..PREAMBLE - 1]), Err(Unreadable::NoMark));
    }

    /// Given a file with one wrong byte, then no frame is read from it on, and only in the last frame it may be a tail.
    #[test]
    fn state_each_wrong_byte_of_a_file_is_found() {
        let file = file(&[b"one", b"", b"three"]);
        let last = file.len() - 37;
        for at in 0..file.len() {
            let mut file = file.clone();
            file[at] ^= 0x10;
            match read(&file) {
                Err(_) => assert!(at < PREAMBLE, "{at}"),
                Ok((contents, broken)) => {
                    let broken = broken.unwrap();
                    assert!(at >= PREAMBLE && broken.at <= at, "{at}");
                    assert!(contents.len() < 3, "{at}");
                    assert_eq!(broken.is_tail, at >= last, "{at}");
                }
            }
        }
    }

    #[test]
    fn state_other_format_is_an_error_with_both_numbers() {
        let error = Frames::read(&file(&[]).into(), 2).unwrap_err();
        assert_eq!(error.to_string(), "format 1, expected 2");
    }

    /// Given a frame of another file within the content of an unfinished one, then it does not make the tail a damage.
    #[test]
    fn state_frames_of_another_file_do_not_count() {
        let other = file(&[b"one", b"two", b"three"]);
        let mut out = Vec::new();
        let mut writer = FrameWriter::begin(1, 8, &mut out);
        assert!(writer.add(3, &other, &mut out));
        out.pop();
        let (_, broken) = read(&out).unwrap();
        assert!(broken.unwrap().is_tail);
    }
}
