//! A text that changes in place on a terminal.

/// Long lines are cut by the terminal instead of wrapped, so that lines can be counted.
const NO_WRAP: &str = "\x1b[?7l";
const WRAP: &str = "\x1b[?7h";

/// What was drawn last, to be drawn over.
#[derive(Debug, Default)]
pub(super) struct Screen {
    lines: usize,
}

impl Screen {
    /// What to write so that `text` takes the place of what was drawn before.
    pub(super) fn draw(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len() + 256);
        if self.lines > 0 {
            out += &format!("\x1b[{}A", self.lines);
        }
        out += "\r";
        out += NO_WRAP;
        for line in text.lines() {
            out += line;
            out += "\x1b[K\n";
        }
        // Lines that are no longer there.
        out += "\x1b[J";
        out += WRAP;
        self.lines = text.lines().count();
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_text_begins_where_the_first_began() {
        let mut screen = Screen::default();
        assert!(!screen.draw("a\nb\n").contains('A'));
        assert!(screen.draw("c\n").starts_with("\x1b[2A\r"));
        assert!(screen.draw("d\n").starts_with("\x1b[1A\r"));
    }
}
