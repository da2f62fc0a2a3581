//! Mutation of protobuf messages by field. Random bytes of a message nearly always break a length before them, so a
//! fuzzer that changes bytes alone stays at the surface: here the lengths follow the change.

use libfuzzer_sys::fuzzer_mutate;

/// Returns the elements of an input: the payloads of its fields, which are framed as fields of a message.
#[allow(dead_code, reason = "not every target reads several messages")]
pub fn elements(input: &[u8]) -> impl Iterator<Item = &[u8]> {
    let fields = fields(input).unwrap_or_default();
    fields.into_iter().filter_map(|field| field.payload(input))
}

/// Mutates the message behind the first byte of an input, or the bytes themselves.
pub fn mutate(data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    let mut random = Random(seed);
    if size < 3 || random.below(8) == 0 {
        return fuzzer_mutate(data, size, max_size);
    }
    let mut mutated = vec![data[0]];
    mutated.extend(message(&data[1..size], &mut random, max_size - 1));
    if mutated.len() > max_size {
        return fuzzer_mutate(data, size, max_size);
    }
    data[..mutated.len()].copy_from_slice(&mutated);
    mutated.len()
}

/// Place of one field in the bytes of a message.
#[derive(Clone, Copy)]
struct Field {
    start: usize,
    /// Start of the content: after the tag, and after the length if the field has one.
    content: usize,
    end: usize,
    has_length: bool,
    tag: u64,
}

impl Field {
    fn payload<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        self.has_length.then(|| &bytes[self.content..self.end])
    }
}

fn message(bytes: &[u8], random: &mut Random, max: usize) -> Vec<u8> {
    let Some(fields) = fields(bytes).filter(|fields| !fields.is_empty()) else {
        return leaf(bytes, max);
    };
    let field = fields[random.below(fields.len())];
    let whole = &bytes[field.start..field.end];
    let (before, after) = (&bytes[..field.start], &bytes[field.end..]);
    match random.below(16) {
        0 => leaf(bytes, max),
        1 => [before, after].concat(),
        2 => [before, whole, whole, after].concat(),
        // A copy of this field in place of another, or before all.
        3 => {
            let other = fields[random.below(fields.len())];
            [&bytes[..other.start], whole, &bytes[other.end..]].concat()
        }
        4 => [whole, bytes].concat(),
        // Another number of the field.
        5 => {
            let number = 1 + random.below(24) as u64;
            let mut tag = Vec::new();
            varint(number << 3 | field.tag & 7, &mut tag);
            let tag_len = varint_len(field.tag);
            [before, &tag, &whole[tag_len..], after].concat()
        }
        // The message inside itself.
        6 if field.has_length => [before, &framed(field.tag, bytes), after].concat(),
        _ => match field.payload(bytes) {
            Some(payload) => {
                let new = message(payload, random, max);
                [before, &framed(field.tag, &new), after].concat()
            }
            None => [before, &leaf(whole, max), after].concat(),
        },
    }
}

/// Mutates bytes as libFuzzer does.
fn leaf(bytes: &[u8], max: usize) -> Vec<u8> {
    let max = max.max(bytes.len()).min(bytes.len() + 64);
    let mut buffer = bytes.to_vec();
    buffer.resize(max.max(1), 0);
    let size = fuzzer_mutate(&mut buffer, bytes.len(), max.max(1));
    buffer.truncate(size);
    buffer
}

fn framed(tag: u64, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    varint(tag, &mut out);
    varint(payload.len() as u64, &mut out);
    out.extend_from_slice(payload);
    out
}

/// Returns the fields of a message, or `None` if the bytes are none.
fn fields(bytes: &[u8]) -> Option<Vec<Field>> {
    let mut fields = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        let tag = read_varint(bytes, &mut at)?;
        if tag >> 3 == 0 || tag >> 3 > u64::from(u32::MAX >> 3) {
            return None;
        }
        let mut content = at;
        let len = match tag & 7 {
            0 => {
                read_varint(bytes, &mut at)?;
                at - content
            }
            1 => 8,
            2 => {
                let len = usize::try_from(read_varint(bytes, &mut at)?).ok()?;
                content = at;
                len
            }
            5 => 4,
            _ => return None,
        };
        at = content.checked_add(len)?;
        if at > bytes.len() {
            return None;
        }
        fields.push(Field {
            start,
            content,
            end: at,
            has_length: tag & 7 == 2,
            tag,
        });
    }
    Some(fields)
}

fn read_varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn varint_len(value: u64) -> usize {
    let mut out = Vec::new();
    varint(value, &mut out);
    out.len()
}

/// Numbers that follow from the seed that libFuzzer chose.
struct Random(u32);

impl Random {
    fn below(&mut self, count: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        if self.0 == 0 {
            self.0 = 1;
        }
        self.0 as usize % count
    }
}
