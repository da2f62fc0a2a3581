//! Conversion of texts that the parser does not know to equivalent ones that it knows.
//!
//! | text | converted |
//! |---|---|
//! | `edition = "2023"` | proto2: first statement, labels, reserved names without quotes |
//! | `extensions 100 [verification = UNVERIFIED];` | `extensions 100 to 100 [...];` |
//! | `reserved "a-b";`, a name that is not an identifier | a placeholder, restored after parsing |
//! | `[(option) = -inf]` | `-1e999`, which is infinite |
//!
//! The meaning of editions (`features`) is read from the options. Source positions are mapped back
//! to the original file.

use std::ops::Range;

use prost_types::{DescriptorProto, FileDescriptorProto};

use super::token::{Token, TokenKind, tokens};

/// Edition whose syntax is supported.
pub(super) const KNOWN: i32 = 2023;

/// Converted file.
#[derive(Debug)]
pub(super) struct Converted {
    /// Converted text; empty if nothing was replaced.
    text: String,
    /// Whether the file declares an edition.
    pub(super) edition: bool,
    edits: Vec<Replacement>,
    /// Reserved names that are no identifiers; the index is the number in their placeholder.
    reserved: Vec<String>,
    /// Errors that the parser would not report, because it accepts the converted text.
    pub(super) errors: Vec<(Range<usize>, String)>,
    /// Error that makes the rest of the file unreadable.
    pub(super) fatal: Option<(Range<usize>, String)>,
}

/// Replaced stretch. It contains no line end.
#[derive(Debug, Clone)]
struct Replacement {
    original: Range<usize>,
    converted: Range<usize>,
}

/// Prefix of the placeholders of reserved names.
const PLACEHOLDER: &str = "oxds_reserved_name_";

/// Converts a file.
pub(super) fn convert(source: &str) -> Converted {
    let all = tokens(source).filter(|token| token.kind != TokenKind::Comment);
    let tokens: Vec<Token> = all.collect();
    let mut converter = Converter {
        source,
        tokens: &tokens,
        next: 0,
        done: 0,
        converted: Converted {
            text: String::new(),
            edition: false,
            edits: Vec::new(),
            reserved: Vec::new(),
            errors: Vec::new(),
            fatal: None,
        },
    };
    if let Some([keyword, equals, edition]) = tokens.first_chunk()
        && &source[keyword.range.clone()] == "edition"
        && equals.kind == TokenKind::Sign(b'=')
    {
        converter.edition(keyword, edition);
    }
    if converter.converted.fatal.is_none() {
        converter.file();
    }
    if !converter.converted.edits.is_empty() {
        converter.converted.text.push_str(&source[converter.done..]);
    }
    converter.converted
}

impl Converted {
    /// Returns the converted text of `source`.
    pub(super) fn text<'a>(&'a self, source: &'a str) -> &'a str {
        if self.edits.is_empty() {
            source
        } else {
            &self.text
        }
    }

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

    /// Restores the reserved names of the parsed file, and maps its source positions back to the
    /// original text.
    pub(super) fn restore(&self, source: &str, proto: &mut FileDescriptorProto) {
        if !self.reserved.is_empty() {
            let enums = proto.enum_type.iter_mut();
            enums.for_each(|declared| self.restore_names(&mut declared.reserved_name));
            let messages = proto.message_type.iter_mut();
            messages.for_each(|message| self.restore_message(message));
        }
        if self.edits.is_empty() {
            return;
        }
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

impl Converted {
    fn restore_message(&self, message: &mut DescriptorProto) {
        self.restore_names(&mut message.reserved_name);
        let enums = message.enum_type.iter_mut();
        enums.for_each(|declared| self.restore_names(&mut declared.reserved_name));
        let messages = message.nested_type.iter_mut();
        messages.for_each(|message| self.restore_message(message));
    }

    fn restore_names(&self, names: &mut [String]) {
        for name in names {
            let number = name.strip_prefix(PLACEHOLDER);
            let number = number.and_then(|number| number.parse::<usize>().ok());
            if let Some(original) = number.and_then(|number| self.reserved.get(number)) {
                name.clone_from(original);
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
    /// Converts the edition statement, which has these tokens.
    fn edition(&mut self, keyword: &Token, edition: &Token) {
        self.converted.edition = true;
        let name = self.source[edition.range.clone()].trim_matches(['"', '\'']);
        if name == KNOWN.to_string() {
            self.replace(keyword.range.clone(), "syntax");
            self.replace(edition.range.clone(), "\"proto2\"");
            self.next = 3;
            return;
        }
        let why = match name {
            "2024" => format!(
                "edition 2024 is not supported: expected edition {KNOWN}, proto2 or proto3, \
                 or a descriptor set of the compiled files"
            ),
            _ => format!("unknown edition {name:?}: expected {KNOWN}, proto2 or proto3"),
        };
        self.converted.fatal = Some((keyword.range.start..edition.range.end, why));
    }

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
            ("reserved", Some(_)) if self.converted.edition => self.reserved_words(),
            ("reserved", Some(_)) => self.reserved_texts(),
            ("extensions", Some(block)) if block != Block::Enum => self.extensions(),
            ("extend", _) => self.extend(),
            _ if self.converted.edition => self.field(&first, word, block),
            _ => {}
        }
        self.rest(word == "option").then_some(opens)
    }

    /// Converts a field of an edition file, if the statement is one.
    fn field(&mut self, first: &Token, word: &str, block: Option<Block>) {
        match (word, block) {
            ("option" | "message" | "enum" | "oneof", _) | ("repeated", Some(Block::Fields)) => {}
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
    }

    /// Reads to the end of a statement and returns whether it opens a block. Braces of option
    /// values do not.
    fn rest(&mut self, is_option: bool) -> bool {
        let mut depth = 0usize;
        while let Some(token) = self.tokens.get(self.next) {
            self.next += 1;
            match token.kind {
                TokenKind::Sign(b'=') => self.infinite(),
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

    /// Quotes the names of a `reserved` statement of an edition. Numbers stay unchanged.
    fn reserved_words(&mut self) {
        let end = self.end_of_list();
        for token in &self.tokens[self.next + 1..end] {
            let text = &self.source[token.range.clone()];
            match token.kind {
                TokenKind::Text => {
                    let why = format!("edition {KNOWN} writes reserved names without quotes");
                    self.error(token.range.clone(), why);
                }
                TokenKind::Word if text.starts_with(|first: char| first.is_ascii_digit()) => return,
                TokenKind::Word => self.replace(token.range.clone(), &format!("\"{text}\"")),
                _ => {}
            }
        }
    }

    /// Replaces the names of a `reserved` statement that are no identifiers. Compilers accept them
    /// with a warning.
    fn reserved_texts(&mut self) {
        let end = self.end_of_list();
        let list = &self.tokens[self.next + 1..end];
        for parts in list.split(|token| token.kind == TokenKind::Sign(b',')) {
            let mut name = String::new();
            for part in parts.iter().filter(|part| part.kind == TokenKind::Text) {
                name.push_str(self.source[part.range.clone()].trim_matches(['"', '\'']));
            }
            let (Some(first), Some(last)) = (parts.first(), parts.last()) else {
                continue;
            };
            let is_text = parts.iter().all(|part| part.kind == TokenKind::Text);
            let is_one_line = !self.source[first.range.start..last.range.end].contains('\n');
            // Escapes are left to the parser.
            if is_text && is_one_line && !is_identifier(&name) && !name.contains('\\') {
                let placeholder = format!("\"{PLACEHOLDER}{}\"", self.converted.reserved.len());
                self.replace(first.range.start..last.range.end, &placeholder);
                self.converted.reserved.push(name);
            }
        }
    }

    /// Writes the last range of an `extensions` statement with options as a range: the parser
    /// expects no options after a single number.
    fn extensions(&mut self) {
        let end = self.end_of_list();
        let is_sign = |index: usize, sign| {
            let token = self.tokens.get(index);
            token.is_some_and(|token: &Token| token.kind == TokenKind::Sign(sign))
        };
        if !is_sign(end, b'[') || end < self.next + 2 {
            return;
        }
        let number = self.tokens[end - 1].range.clone();
        let is_single = end == self.next + 2 || is_sign(end - 2, b',');
        if is_single && self.source.as_bytes()[number.start].is_ascii_digit() {
            let range = format!(" to {}", &self.source[number.clone()]);
            self.replace(number.end..number.end, &range);
        }
    }

    /// Reports an `extend` block without fields.
    fn extend(&mut self) {
        let rest = &self.tokens[self.next..];
        let open = rest.iter().position(|token| !self.is_name(token));
        let block = open.and_then(|open| rest.get(open..open + 2));
        if let Some([open, close]) = block
            && (open.kind, close.kind) == (TokenKind::Sign(b'{'), TokenKind::Sign(b'}'))
        {
            let why = "empty extend: expected a field".to_owned();
            self.error(close.range.clone(), why);
        }
    }

    fn is_name(&self, token: &Token) -> bool {
        matches!(token.kind, TokenKind::Word | TokenKind::Sign(b'.'))
    }

    /// Replaces `-inf` and `-nan` after `=`.
    fn infinite(&mut self) {
        let Some([minus, value, ..]) = self.tokens.get(self.next..) else {
            return;
        };
        let number = match &self.source[value.range.clone()] {
            "inf" => "-1e999",
            "nan" => "nan",
            _ => return,
        };
        let place = minus.range.start..value.range.end;
        if minus.kind == TokenKind::Sign(b'-') && !self.source[place.clone()].contains('\n') {
            self.replace(place, number);
        }
    }

    /// Returns the index of the token after the ranges or names of the current statement.
    fn end_of_list(&self) -> usize {
        let list = self.tokens[self.next..].iter();
        let is_item = |token: &Token| {
            matches!(
                token.kind,
                TokenKind::Word | TokenKind::Text | TokenKind::Sign(b',' | b'-')
            )
        };
        self.next + list.take_while(|token| is_item(token)).count()
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

fn is_identifier(name: &str) -> bool {
    let starts = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    starts && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
