//! The depth to which messages may nest, the same in every format and on every path into the process.
//!
//! The decoders of protobuf stop at 100 levels (C++, Java and `prost` alike), but they start a new count in the bytes
//! of each `Any`. They set no limit for code that opens an `Any` inside an `Any`. Here the content of an `Any` counts
//! on from the `Any`: a resource that passes can be decoded, validated, translated and printed on an ordinary stack.
//!
//! | | levels |
//! |---|---|
//! | a message in a field, an item or an entry of a map | 1 |
//! | the content of an `Any`, which JSON writes into the object of the `Any` | 0 |
//! | a well-known type in an `Any`, for which JSON has the key `value` | 1 |

use crate::path::{FieldPath, Step};
use crate::schema::{self, Message, Shape, Type, WellKnown};
use crate::wire;

/// Levels of messages below a resource.
pub(crate) const MAX_DEPTH: usize = 100;
/// Levels of the messages that carry resources: responses, `Resource` wrappers, the lists of CSDS.
pub(crate) const CARRIERS: usize = 8;
/// Nested brackets of a text. A message in a list has two, and the document around the resource a few.
pub(crate) const MAX_BRACKETS: usize = 2 * (MAX_DEPTH + CARRIERS);

/// An encoded message that nests too deep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TooDeep {
    /// Steps from the message to the first field below the limit.
    steps: Vec<Step>,
}

impl TooDeep {
    /// Appends the steps to the path of the message.
    pub(crate) fn extend(self, path: &mut FieldPath) {
        self.steps
            .into_iter()
            .rev()
            .for_each(|step| path.push(step));
    }

    /// Returns the limit, as findings state it.
    pub(crate) fn limit() -> String {
        format!("messages are nested more than {MAX_DEPTH} levels deep")
    }
}

impl std::fmt::Display for TooDeep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut path = FieldPath::default();
        self.clone().extend(&mut path);
        write!(f, "{path}: {}", Self::limit())
    }
}

/// Measures an encoded message, and returns the number of levels below it.
///
/// It follows the descriptors, as every reader of the message does: unknown fields, and an `Any` of unknown type, are
/// bytes. Malformed bytes end the message that they are in; the decoder reports them.
pub(crate) fn measure(
    schema: &'static Message,
    value: &[u8],
    limit: usize,
) -> Result<usize, TooDeep> {
    let mut measure = Measure { limit, deepest: 0 };
    measure.message(schema, value, 0)?;
    Ok(measure.deepest)
}

struct Measure {
    limit: usize,
    deepest: usize,
}

impl Measure {
    fn message(
        &mut self,
        schema: &'static Message,
        mut input: &[u8],
        level: usize,
    ) -> Result<(), TooDeep> {
        if level > self.limit {
            return Err(TooDeep { steps: Vec::new() });
        }
        self.deepest = self.deepest.max(level);
        if schema.well_known == Some(WellKnown::Any) {
            return self.any(input, level);
        }
        let mut index = (0, 0);
        let is_map = |number| {
            let field = schema.field(number);
            field.is_some_and(|field| matches!(field.shape, Shape::Map { .. }))
        };
        while let Some((number, body)) = next(&mut input, is_map) {
            let Some(field) = schema.field(number) else {
                continue;
            };
            let at = |steps: &mut Vec<Step>| steps.push(Step::Field(&field.name));
            match &field.shape {
                Shape::One(ty) => self.value(ty, body, level, at)?,
                Shape::List(ty) => {
                    index = match index {
                        (of, items) if of == number => (of, items + 1),
                        _ => (number, 0),
                    };
                    let item = |steps: &mut Vec<Step>| {
                        steps.push(Step::Index(index.1));
                        at(steps);
                    };
                    self.value(ty, body, level, item)?;
                }
                Shape::Map { value, .. } => self.entry(value, body, level, at)?,
            }
        }
        Ok(())
    }

    /// Measures a value that may be a message. `at` adds the steps to it, the last one first.
    fn value(
        &mut self,
        ty: &'static Type,
        body: &[u8],
        level: usize,
        at: impl FnOnce(&mut Vec<Step>),
    ) -> Result<(), TooDeep> {
        let Some(schema) = ty.message() else {
            return Ok(());
        };
        self.message(schema, body, level + 1).map_err(|mut deep| {
            at(&mut deep.steps);
            deep
        })
    }

    /// Measures the entry of a map, which is a message of its own in the encoded form.
    fn entry(
        &mut self,
        ty: &'static Type,
        mut entry: &[u8],
        level: usize,
        at: impl FnOnce(&mut Vec<Step>) + Copy,
    ) -> Result<(), TooDeep> {
        if ty.message().is_none() {
            return Ok(());
        }
        let mut key = String::new();
        while let Some((number, body)) = next(&mut entry, |_| false) {
            match number {
                1 => key = String::from_utf8_lossy(body).into_owned(),
                2 => self.value(ty, body, level + 1, |steps| {
                    steps.push(Step::Key(std::mem::take(&mut key)));
                    at(steps);
                })?,
                _ => {}
            }
        }
        Ok(())
    }

    fn any(&mut self, mut input: &[u8], level: usize) -> Result<(), TooDeep> {
        let (mut type_url, mut value): (&[u8], &[u8]) = (&[], &[]);
        while let Some((number, body)) = next(&mut input, |_| false) {
            match number {
                1 => type_url = body,
                2 => value = body,
                _ => {}
            }
        }
        let name = std::str::from_utf8(type_url).ok();
        let name = name.and_then(|url| Some(url.rsplit_once('/')?.1));
        let Some(schema) = name.and_then(schema::find) else {
            return Ok(());
        };
        let level = level + usize::from(schema.well_known.is_some());
        self.message(schema, value, level)
    }
}

/// Returns the next field with a length, its number and its body; `None` at the end and where the bytes are malformed.
fn next<'a>(input: &mut &'a [u8], is_map: impl Fn(u32) -> bool) -> Option<(u32, &'a [u8])> {
    loop {
        let (number, body) = wire::next(input, &is_map)?;
        if let Some(body) = body {
            return Some((number, body));
        }
    }
}

/// Returns the depth of the brackets of a text in JSON or protobuf text format, up to one more than [`MAX_BRACKETS`].
///
/// The parsers of both are recursive, so this comes before them. In text that the parser rejects the depth may be wrong
/// behind the error, which it does not reach.
pub(crate) fn brackets(text: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0usize, 0);
    let (mut quote, mut comment, mut escaped) = (None, false, false);
    for byte in text {
        match (byte, quote) {
            (b'\n', _) => (comment, escaped) = (false, false),
            _ if comment => {}
            (_, Some(_)) if escaped => escaped = false,
            (b'\\', Some(_)) => escaped = true,
            (b'"' | b'\'', Some(open)) if open == byte => quote = None,
            (_, Some(_)) => {}
            (b'"' | b'\'', None) => quote = Some(byte),
            (b'#', None) => comment = true,
            (b'{' | b'<' | b'[', None) => depth += 1,
            (b'}' | b'>' | b']', None) => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
        if deepest > MAX_BRACKETS {
            break;
        }
    }
    deepest
}

/// Runs `recursive`, which descends this many levels, on a stack that suffices.
///
/// In optimized builds the limit on messages fits a stack of 2 MiB, as Tokio's threads have; text at its limit of
/// brackets does not, and debug builds need many times as much.
pub(crate) fn on_stack_for<T: Send>(levels: usize, mut recursive: impl FnMut() -> T + Send) -> T {
    const STACK: usize = 32 << 20;
    const ORDINARY: usize = if cfg!(debug_assertions) {
        12
    } else {
        MAX_DEPTH
    };
    if levels <= ORDINARY {
        return recursive();
    }
    let joined = std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().stack_size(STACK);
        let thread = builder.spawn_scoped(scope, &mut recursive);
        thread.map(std::thread::ScopedJoinHandle::join)
    });
    match joined {
        Ok(Ok(done)) => done,
        Ok(Err(panic)) => std::panic::resume_unwind(panic),
        // The thread could not be spawned. This stack suffices for all but the deepest input.
        Err(_) => recursive(),
    }
}
