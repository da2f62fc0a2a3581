//! Regular expressions of xDS, whose dialect is RE2's, in the dialect of the crate `regex`.
//!
//! ```text
//!   RE2's text ──► Translator: atoms, repetitions, classes ──► text of `regex`, or the rule that it breaks
//! ```
//! Both match in linear time and agree about most expressions. [`translate`] rewrites what they read differently:
//! `\Q…\E`, octal escapes, `[a&&b]`, `{` without a number, and `\d`, `\s`, `\w` and `\b`, which are ASCII in RE2. It
//! rejects what only `regex` knows. `\C`, a byte of a character, remains an error.

/// Largest count of a repetition in RE2.
const MAX_REPEAT: u32 = 1000;

/// Names of `[[:name:]]`.
const ASCII_CLASSES: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
    "space", "upper", "word", "xdigit",
];

/// Longest text between the braces of a repetition that is looked at: two numbers and a comma.
const MAX_COUNTS: usize = 24;

/// Rewrites an expression. What is invalid in both dialects may pass.
pub(super) fn translate(pattern: &str) -> Result<String, String> {
    let mut translator = Translator {
        rest: pattern,
        out: String::with_capacity(pattern.len()),
        repeated: false,
    };
    while let Some(next) = translator.next() {
        translator.atom(next)?;
    }
    Ok(translator.out)
}

struct Translator<'a> {
    rest: &'a str,
    out: String,
    /// Whether a repetition stands just before.
    repeated: bool,
}

impl Translator<'_> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.rest = &self.rest[next.len_utf8()..];
        Some(next)
    }

    /// Consumes this character, if it is the next one.
    fn next_is(&mut self, character: char) -> bool {
        let is_next = self.peek() == Some(character);
        if is_next {
            self.next();
        }
        is_next
    }

    fn atom(&mut self, next: char) -> Result<(), String> {
        let was_repeated = std::mem::take(&mut self.repeated);
        match next {
            '\\' => self.escape()?,
            '[' => self.class()?,
            '(' => self.group()?,
            '*' | '+' | '?' => self.repetition(&next.to_string(), was_repeated)?,
            '{' => match self.counts()? {
                Some(counts) => self.repetition(&counts, was_repeated)?,
                None => self.out.push_str("\\{"),
            },
            other => self.out.push(other),
        }
        Ok(())
    }

    fn repetition(&mut self, operator: &str, was_repeated: bool) -> Result<(), String> {
        if was_repeated {
            return Err(format!("repeated repetition {operator:?}"));
        }
        self.repeated = true;
        self.out.push_str(operator);
        if self.next_is('?') {
            self.out.push('?');
        }
        Ok(())
    }

    /// Consumes the counts of a repetition, after its `{`; `None` without counts: then the `{` is a character.
    fn counts(&mut self) -> Result<Option<String>, String> {
        let mut ahead = self.rest.bytes().take(MAX_COUNTS);
        let Some(end) = ahead.position(|byte| byte == b'}') else {
            return Ok(None);
        };
        let counts = &self.rest[..end];
        let (least, most) = counts.split_once(',').unwrap_or((counts, ""));
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if least.is_empty() || !is_number(least) || !is_number(most) {
            return Ok(None);
        }
        for count in [least, most].into_iter().filter(|count| !count.is_empty()) {
            if count.parse().map_or(true, |count: u32| count > MAX_REPEAT) {
                return Err(format!("repetition of more than {MAX_REPEAT}"));
            }
        }
        self.rest = &self.rest[end + 1..];
        Ok(Some(format!("{{{counts}}}")))
    }

    /// Checks the flags of a group.
    fn group(&mut self) -> Result<(), String> {
        self.out.push('(');
        // The question mark does not mean a repetition.
        if self.next_is('?') {
            self.out.push('?');
            let mut flags = self.rest.chars();
            let mut flags = flags.by_ref().take_while(|flag| "imsUxuR-".contains(*flag));
            if let Some(flag) = flags.find(|flag| "xuR".contains(*flag)) {
                return Err(format!("unknown flag {flag:?}"));
            }
        }
        Ok(())
    }

    /// Rewrites an escape outside of classes, after its backslash.
    fn escape(&mut self) -> Result<(), String> {
        let Some(next) = self.peek() else {
            return Err("escape without a character".to_owned());
        };
        if let Some((set, negated)) = perl_class(next) {
            self.next();
            self.out.push_str(if negated { "[^" } else { "[" });
            self.out.push_str(set);
            self.out.push(']');
            return Ok(());
        }
        match next {
            'Q' => {
                let quoted = &self.rest[1..];
                let (text, rest) = quoted.split_once("\\E").unwrap_or((quoted, ""));
                self.rest = rest;
                self.out.push_str(&regex::escape(text));
            }
            'b' => {
                self.next();
                self.out.push_str("(?-u:\\b)");
            }
            _ => {
                let character = self.character()?;
                self.out.push_str(&character);
            }
        }
        Ok(())
    }

    /// Consumes an escape that both know, or that is one character, after its backslash.
    fn character(&mut self) -> Result<String, String> {
        let Some(next) = self.next() else {
            return Err("escape without a character".to_owned());
        };
        match next {
            'u' | 'U' => Err(format!("unknown escape \\{next}")),
            '0'..='7' => self.octal(next),
            'p' | 'P' if self.next_is('{') => self.unicode_class(next),
            other if other.is_ascii_alphanumeric() => Ok(format!("\\{other}")),
            other => Ok(regex::escape(&other.to_string())),
        }
    }

    /// Consumes the name of a Unicode class, after `\p{` or `\P{`. Names have letters and `_`; `^` before one stands
    /// for all others.
    fn unicode_class(&mut self, escape: char) -> Result<String, String> {
        let is_opposite = self.next_is('^');
        let named = self.rest.split_once('}');
        let is_part = |part: char| part.is_ascii_alphabetic() || part == '_';
        let Some((name, rest)) = named.filter(|(name, _)| name.chars().all(is_part)) else {
            return Err(format!("unknown class after \\{escape}{{"));
        };
        self.rest = rest;
        let escape = match (escape, is_opposite) {
            ('p', true) => 'P',
            ('P', true) => 'p',
            (escape, _) => escape,
        };
        Ok(format!("\\{escape}{{{name}}}"))
    }

    /// Consumes an octal escape, after its first digit. A single digit would be a reference to a group.
    fn octal(&mut self, first: char) -> Result<String, String> {
        let mut digits = first.to_string();
        while digits.len() < 3
            && let Some(digit @ '0'..='7') = self.peek()
        {
            self.next();
            digits.push(digit);
        }
        match u32::from_str_radix(&digits, 8) {
            Ok(code) if first == '0' || digits.len() > 1 => Ok(format!("\\x{{{code:x}}}")),
            _ => Err(format!("unknown escape \\{first}")),
        }
    }

    /// Rewrites a class, after its bracket.
    fn class(&mut self) -> Result<(), String> {
        self.out.push('[');
        if self.next_is('^') {
            self.out.push('^');
        }
        let mut is_first = true;
        while let Some(next) = self.next() {
            if next == ']' && !is_first {
                self.out.push(']');
                return Ok(());
            }
            is_first = false;
            self.member(next)?;
        }
        Err("class without an end".to_owned())
    }

    /// Rewrites a character, a range or a set in a class.
    fn member(&mut self, next: char) -> Result<(), String> {
        if next == '[' && self.peek() == Some(':') {
            return self.ascii_class();
        }
        if next == '\\'
            && let Some((set, negated)) = self.peek().and_then(perl_class)
        {
            self.next();
            let member = if negated {
                format!("[^{set}]")
            } else {
                set.to_owned()
            };
            self.out.push_str(&member);
            return Ok(());
        }
        let low = self.class_character(next)?;
        self.out.push_str(&low);
        // A hyphen before the end of the class is a character.
        if self.rest.starts_with('-') && !self.rest.starts_with("-]") {
            self.next();
            if let Some(high) = self.next() {
                let high = self.class_character(high)?;
                self.out.push('-');
                self.out.push_str(&high);
            }
        }
        Ok(())
    }

    fn class_character(&mut self, next: char) -> Result<String, String> {
        match next {
            '\\' => self.character(),
            other => Ok(regex::escape(&other.to_string())),
        }
    }

    /// Copies `[:name:]`, after its first bracket.
    fn ascii_class(&mut self) -> Result<(), String> {
        let name = self.rest.trim_start_matches([':', '^']);
        let name = ASCII_CLASSES.iter().find(|known| name.starts_with(*known));
        let known = name.and_then(|name| {
            ["", "^"].into_iter().find_map(|not| {
                let text = format!(":{not}{name}:]");
                let rest = self.rest.strip_prefix(&*text)?;
                Some((text, rest))
            })
        });
        let Some((text, rest)) = known else {
            return Err("unknown class after [:".to_owned());
        };
        self.rest = rest;
        self.out.push('[');
        self.out.push_str(&text);
        Ok(())
    }
}

/// The characters of `\d`, `\s` and `\w` in a class, and whether the escape stands for all others.
fn perl_class(escape: char) -> Option<(&'static str, bool)> {
    let set = match escape.to_ascii_lowercase() {
        'd' => "0-9",
        's' => r"\t\n\f\r ",
        'w' => "0-9A-Za-z_",
        _ => return None,
    };
    Some((set, escape.is_ascii_uppercase()))
}

#[cfg(test)]
mod tests {
    use regex::Regex;

    use super::*;

    fn compiled(pattern: &str) -> Result<Regex, String> {
        let translated = translate(pattern)?;
        Regex::new(&format!("^(?:{translated})$")).map_err(|error| error.to_string())
    }

    #[test]
    fn c181_dialect_is_that_of_re2() {
        for (pattern, matching, other) in [
            (r"\Qa.b\E+", "a.bb", "axb"),
            (r"x\Q(", "x(", "x"),
            (r"[a&&b]+", "a&b", "c"),
            (r"[[a]+", "[a", "]"),
            (r"[]a]+", "]a", "["),
            (r"[^]a]+", "[b", "]"),
            (r"[+--]+", "+,-", "a"),
            (r"[a~~-]+", "a~-", "b"),
            (r"[\w.-]+", "a_1.-", "ä"),
            (r"[\D]+", "aä", "1"),
            (r"\d+", "019", "٣"),
            (r"\w+\W", "a_9-", "ä-"),
            (r"\s", "\t", "\u{a0}"),
            (r"a{,2}", "a{,2}", "aa"),
            (r"a{x", "a{x", "a"),
            (r"a{1,1000}?b", "aab", "b"),
            (r"\<a\>", "<a>", "a"),
            (r"\141\0", "a\0", "a"),
            (r"\p{Greek}+", "αβ", "a"),
            (r"[\p{Lu}_]+", "A_", "a"),
            (r"\P{Greek}", "a", "α"),
            (r"\p{^Greek}", "a", "α"),
            (r"\pL", "a", "1"),
            (r"[[:^alpha:][:digit:]]+", "1-", "a"),
            (r"(?i)a(?s:.)(?P<n>b)", "A\nB", "ab"),
            (r"ü\Qß\E", "üß", "ü"),
        ] {
            let regex = compiled(pattern).unwrap();
            assert!(regex.is_match(matching), "{pattern} on {matching:?}");
            assert!(!regex.is_match(other), "{pattern} on {other:?}");
        }
    }

    #[test]
    fn c181_extensions_of_the_matcher_are_rejected() {
        for pattern in [
            "a**",
            "a+*",
            "a{2}{3}",
            "a??+",
            "a{1001}",
            "a{2,4294967296}",
            "(?x)a",
            "(?i-u:a)",
            "(?R)",
            r"\u0061",
            r"\U{61}",
            "[[:foo:]]",
            r"\1",
            r"\8",
            r"\C",
            "(?=a)",
            "[a",
            "[",
            "a{2,1}",
            r"\p{Script=Greek}",
            r"\p{Greek",
            r"\p{None}",
        ] {
            assert!(compiled(pattern).is_err(), "{pattern}");
        }
    }
}
