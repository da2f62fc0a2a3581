//! Support for `edition = "2023"`: the text is converted to proto2, because the parser only knows
//! proto2 and proto3. The syntax that differs is rewritten: the first statement, fields without a
//! label, reserved names without quotes. The meaning (`features`) is read from the options. Source
//! positions are mapped back to the original file.
//! other. Places are moved back to where they are in the file.

use std::ops::Range;

use prost_types::FileDescriptorProto;

use super::token::{Token, TokenKind, tokens};

/// Edition whose syntax is supported.
pub(super) const KNOWN: i32 = 2023;

/// Edition file, converted to proto2.
#[derive(Debug)]
pub(super) struct Converted {
    pub(super) text: String,
    edits: Vec<Replacement>,
    /// Errors: constructs of proto2 that the edition does not allow.
    pub(super) errors: Vec<(Range<usize>, String)>,
}

/// Replaced stretch. It contains no line end.
#[derive(Debug, Clone)]
struct Replacement {
    original: Range<usize>,
    converted: Range<usize>,
}

/// Converts a file to proto2. Returns `None` if it is not an edition file.
pub(super) fn convert(source: &str) -> Option<Converted> {
    let mut all = tokens(source).filter(|token| token.kind != TokenKind::Comment);
    let keyword = all.next()?;
    if &source[keyword.range.clone()] != "edition" {
        return None;
    }
    let tokens: Vec<Token> = std::iter::once(keyword).chain(all).collect();
    let [keyword, equals, edition, ..] = &tokens[..] else {
        return None;
    };
    if equals.kind != TokenKind::Sign(b'=') {
        return None;
    }
    let mut converter = Converter {
        source,
        tokens: &tokens,
        next: 3,
        done: 0,
        converted: Converted {
            text: String::with_capacity(source.len() + source.len() / 8),
            edits: Vec::new(),
            errors: Vec::new(),
        },
    };
    converter.replace(keyword.range.clone(), "syntax");
    converter.replace(edition.range.clone(), "\"proto2\"");
    let name = source[edition.range.clone()].trim_matches(['"', '\'']);
    if name == KNOWN.to_string() {
        converter.file();
    } else {
        let why = format!("unsupported edition {name}: expected {KNOWN}, proto2 or proto3");
        converter.error(keyword.range.start..edition.range.end, why);
    }
    converter.converted.text.push_str(&source[converter.done..]);
    Some(converter.converted)
}

impl Converted {
    /// Maps a byte offset of the converted text to the original file.
    pub(super) fn original(&self, offset: usize) -> usize {
        let after = self
            .edits
            .partition_point(|edit| edit.converted.start <= offset);
        match after.checked_sub(1).map(|before| &self.edits[before]) {
            None => offset,
            Some(edit) if offset < edit.converted.end => edit.original.start,
            Some(edit) => edit.original.end + (offset - edit.converted.end),
        }
    }

    /// Maps the source positions of the parsed file back to the original text.
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

/// Returns the byte offset of each line.
pub(super) fn starts(text: &str) -> Vec<usize> {
    let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
    std::iter::once(0)
        .chain(ends.map(|(at, _)| at + 1))
        .collect()
}

/// Type of a block in braces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Block {
    /// Fields that may have a label: message or extension.
    Fields,
    /// Fields without a label.
    Oneof,
    Enum,
    /// Block of a service or method.
    Other,
}

struct Converter<'a> {
    source: &'a str,
    tokens: &'a [Token],
    /// Index of the next token.
    next: usize,
    /// Number of source bytes that are already converted.
    done: usize,
    converted: Converted,
}

impl Converter<'_> {
    fn file(&mut self) {
        let mut blocks: Vec<Block> = Vec::new();
        while let Some(token) = self.tokens.get(self.next) {
            match token.kind {
                TokenKind::Sign(b'}') => {
                    blocks.pop();
                    self.next += 1;
                }
                TokenKind::Sign(b';') => self.next += 1,
                _ => blocks.extend(self.statement(blocks.last().copied())),
            }
        }
    }

    /// Reads to the end of a statement, or into the block that it opens.
    fn statement(&mut self, block: Option<Block>) -> Option<Block> {
        let first = self.tokens[self.next].clone();
        let word = match first.kind {
            TokenKind::Word => &self.source[first.range.clone()],
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
                let why = format!(
                    "edition {KNOWN} has no {word}: use features.field_presence = {feature}"
                );
                self.error(first.range.clone(), why);
            }
            ("group", Some(_)) => {
                let why = format!(
                    "edition {KNOWN} has no group: use features.message_encoding = DELIMITED"
                );
                self.error(first.range.clone(), why);
            }
            (_, Some(Block::Fields))
                if matches!(first.kind, TokenKind::Word | TokenKind::Sign(b'.')) =>
            {
                let start = first.range.start;
                self.replace(start..start, "optional ");
            }
            _ => {}
        }
        self.rest(word == "option").then_some(opens)
    }

    /// Reads to the end of a statement and returns whether it opens a block. Braces of option
    /// values do not.
    fn rest(&mut self, is_option: bool) -> bool {
        let mut depth = 0usize;
        while let Some(token) = self.tokens.get(self.next) {
            self.next += 1;
            match token.kind {
                TokenKind::Sign(b'{') if depth == 0 && !is_option => return true,
                TokenKind::Sign(b'{' | b'[') => depth += 1,
                TokenKind::Sign(b'}') if depth == 0 => {
                    // The brace closes the surrounding block.
                    self.next -= 1;
                    return false;
                }
                TokenKind::Sign(b'}' | b']') => depth = depth.saturating_sub(1),
                TokenKind::Sign(b';') if depth == 0 => return false,
                _ => {}
            }
        }
        false
    }

    /// Quotes the names of a `reserved` statement. Numbers stay unchanged.
    fn reserved(&mut self) {
        let list = self.tokens[self.next + 1..].iter();
        let names: Vec<Range<usize>> = list
            .take_while(|token| matches!(token.kind, TokenKind::Word | TokenKind::Sign(b',')))
            .filter(|token| token.kind == TokenKind::Word)
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

    /// Returns the sign `ahead` tokens after the current one.
    fn sign(&self, ahead: usize) -> Option<u8> {
        match self.tokens.get(self.next + ahead)?.kind {
            TokenKind::Sign(sign) => Some(sign),
            _ => None,
        }
    }

    fn replace(&mut self, original: Range<usize>, with: &str) {
        let converted = &mut self.converted;
        converted
            .text
            .push_str(&self.source[self.done..original.start]);
        let start = converted.text.len();
        converted.text.push_str(with);
        self.done = original.end;
        converted.edits.push(Replacement {
            original,
            converted: start..converted.text.len(),
        });
    }

    fn error(&mut self, place: Range<usize>, why: String) {
        self.converted.errors.push((place, why));
    }
}
