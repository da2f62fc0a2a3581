//! `edition = "2023"`, respelled for a parser that knows proto2 and proto3 alone.
//!
//! What the edition writes in another way becomes proto2: the first statement, fields without a
//! label, reserved names without quotes. What it means (`features`) is read from the options like any
//! other. Places are moved back to where they are in the file.

use std::ops::Range;

use prost_types::FileDescriptorProto;

use super::token::{Kind, Token, tokens};

/// The edition whose spelling is known.
pub(super) const KNOWN: i32 = 2023;

/// A file that begins with `edition`, as proto2.
#[derive(Debug)]
pub(super) struct Respelled {
    pub(super) text: String,
    edits: Vec<Edit>,
    /// What the edition does not allow, though proto2 does.
    pub(super) mistakes: Vec<(Range<usize>, String)>,
}

/// A stretch that was replaced; none holds an end of a line.
#[derive(Debug, Clone)]
struct Edit {
    original: Range<usize>,
    respelled: Range<usize>,
}

/// The file respelled; none when it is of proto2 or proto3.
pub(super) fn respell(source: &str) -> Option<Respelled> {
    let mut all = tokens(source).filter(|token| token.kind != Kind::Comment);
    let keyword = all.next()?;
    if &source[keyword.range.clone()] != "edition" {
        return None;
    }
    let tokens: Vec<Token> = std::iter::once(keyword).chain(all).collect();
    let [keyword, equals, edition, ..] = &tokens[..] else {
        return None;
    };
    if equals.kind != Kind::Sign(b'=') {
        return None;
    }
    let mut speller = Speller {
        source,
        tokens: &tokens,
        next: 3,
        done: 0,
        respelled: Respelled {
            text: String::with_capacity(source.len() + source.len() / 8),
            edits: Vec::new(),
            mistakes: Vec::new(),
        },
    };
    speller.replace(keyword.range.clone(), "syntax");
    speller.replace(edition.range.clone(), "\"proto2\"");
    let name = source[edition.range.clone()].trim_matches(['"', '\'']);
    if name == KNOWN.to_string() {
        speller.file();
    } else {
        let why = format!("edition {name} is not supported, only {KNOWN}, proto2 and proto3");
        speller.mistake(keyword.range.start..edition.range.end, why);
    }
    speller.respelled.text.push_str(&source[speller.done..]);
    Some(speller.respelled)
}

impl Respelled {
    /// The place in the file of a byte of the respelled text.
    pub(super) fn original(&self, offset: usize) -> usize {
        let after = self
            .edits
            .partition_point(|edit| edit.respelled.start <= offset);
        match after.checked_sub(1).map(|before| &self.edits[before]) {
            None => offset,
            Some(edit) if offset < edit.respelled.end => edit.original.start,
            Some(edit) => edit.original.end + (offset - edit.respelled.end),
        }
    }

    /// Moves the places of what was parsed back to where they are in the file.
    pub(super) fn restore(&self, source: &str, proto: &mut FileDescriptorProto) {
        let (old, new) = (starts(source), starts(&self.text));
        let column = |line: i32, column: i32| {
            let line = line as usize;
            match (old.get(line), new.get(line)) {
                (Some(old), Some(new)) => {
                    (self.original(new + column as usize).saturating_sub(*old)) as i32
                }
                _ => column,
            }
        };
        let info = proto.source_code_info.iter_mut();
        for location in info.flat_map(|info| &mut info.location) {
            match &mut location.span[..] {
                [line, start, end] => (*start, *end) = (column(*line, *start), column(*line, *end)),
                [line, start, last, end] => {
                    (*start, *end) = (column(*line, *start), column(*last, *end));
                }
                _ => {}
            }
        }
    }
}

/// Where each line begins.
pub(super) fn starts(text: &str) -> Vec<usize> {
    let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
    std::iter::once(0)
        .chain(ends.map(|(at, _)| at + 1))
        .collect()
}

/// What stands in braces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Block {
    /// Fields that may have a label: of a message or an extension.
    Fields,
    /// Fields that may have none.
    Oneof,
    Enum,
    /// A service or a method.
    Other,
}

struct Speller<'a> {
    source: &'a str,
    tokens: &'a [Token],
    /// The token that comes next.
    next: usize,
    /// How much of the source is in the respelled text.
    done: usize,
    respelled: Respelled,
}

impl Speller<'_> {
    fn file(&mut self) {
        let mut blocks: Vec<Block> = Vec::new();
        while let Some(token) = self.tokens.get(self.next) {
            match token.kind {
                Kind::Sign(b'}') => {
                    blocks.pop();
                    self.next += 1;
                }
                Kind::Sign(b';') => self.next += 1,
                _ => blocks.extend(self.statement(blocks.last().copied())),
            }
        }
    }

    /// Reads up to the end of a statement, or into the block that it opens.
    fn statement(&mut self, block: Option<Block>) -> Option<Block> {
        let first = self.tokens[self.next].clone();
        let word = match first.kind {
            Kind::Word => &self.source[first.range.clone()],
            _ => "",
        };
        let opens = match word {
            "message" | "extend" => Block::Fields,
            "oneof" => Block::Oneof,
            "enum" => Block::Enum,
            _ => Block::Other,
        };
        match (word, block) {
            ("reserved", Some(_)) => self.reserved(),
            ("option" | "extensions" | "message" | "enum" | "oneof" | "extend", _)
            | ("repeated", Some(Block::Fields)) => {}
            ("map", Some(Block::Fields)) if self.sign(1) == Some(b'<') => {}
            ("optional" | "required", Some(Block::Fields)) => {
                let feature = match word {
                    "optional" => "EXPLICIT, the default",
                    _ => "LEGACY_REQUIRED",
                };
                let why =
                    format!("edition {KNOWN} has no {word}: features.field_presence = {feature}");
                self.mistake(first.range.clone(), why);
            }
            ("group", Some(_)) => {
                let why =
                    format!("edition {KNOWN} has no group: features.message_encoding = DELIMITED");
                self.mistake(first.range.clone(), why);
            }
            (_, Some(Block::Fields)) if matches!(first.kind, Kind::Word | Kind::Sign(b'.')) => {
                let start = first.range.start;
                self.replace(start..start, "optional ");
            }
            _ => {}
        }
        self.rest(word == "option").then_some(opens)
    }

    /// Goes on to the end of a statement; says whether that opens a block. Braces of values do not.
    fn rest(&mut self, is_option: bool) -> bool {
        let mut depth = 0usize;
        while let Some(token) = self.tokens.get(self.next) {
            self.next += 1;
            match token.kind {
                Kind::Sign(b'{') if depth == 0 && !is_option => return true,
                Kind::Sign(b'{' | b'[') => depth += 1,
                Kind::Sign(b'}') if depth == 0 => {
                    // Of the block around it.
                    self.next -= 1;
                    return false;
                }
                Kind::Sign(b'}' | b']') => depth = depth.saturating_sub(1),
                Kind::Sign(b';') if depth == 0 => return false,
                _ => {}
            }
        }
        false
    }

    /// Quotes the names of a `reserved` statement; leaves numbers as they are.
    fn reserved(&mut self) {
        let list = self.tokens[self.next + 1..].iter();
        let names: Vec<Range<usize>> = list
            .take_while(|token| matches!(token.kind, Kind::Word | Kind::Sign(b',')))
            .filter(|token| token.kind == Kind::Word)
            .map(|token| token.range.clone())
            .collect();
        let text = |name: &Range<usize>| &self.source[name.clone()];
        let digit = |first: char| first.is_ascii_digit();
        if names
            .first()
            .is_some_and(|name| !text(name).starts_with(digit))
        {
            for name in names {
                let quoted = format!("\"{}\"", &self.source[name.clone()]);
                self.replace(name, &quoted);
            }
        }
    }

    /// The sign that is `ahead` tokens ahead.
    fn sign(&self, ahead: usize) -> Option<u8> {
        match self.tokens.get(self.next + ahead)?.kind {
            Kind::Sign(sign) => Some(sign),
            _ => None,
        }
    }

    fn replace(&mut self, original: Range<usize>, with: &str) {
        let respelled = &mut self.respelled;
        respelled
            .text
            .push_str(&self.source[self.done..original.start]);
        let start = respelled.text.len();
        respelled.text.push_str(with);
        self.done = original.end;
        respelled.edits.push(Edit {
            original,
            respelled: start..respelled.text.len(),
        });
    }

    fn mistake(&mut self, place: Range<usize>, why: String) {
        self.respelled.mistakes.push((place, why));
    }
}
