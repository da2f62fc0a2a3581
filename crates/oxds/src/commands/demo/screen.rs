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
    /// What to write so that `text` takes the place of what was drawn before. Of a text that is
    /// taller than the terminal the end is shown: there stands what is new.
    pub(super) fn draw(&mut self, text: &str, rows: Option<usize>) -> String {
        // The cursor needs a row, too.
        let most = rows.map_or(usize::MAX, |rows| rows.saturating_sub(1));
        let lines = text.lines().count();
        let shown = text.lines().skip(lines.saturating_sub(most));
        let mut out = String::with_capacity(text.len() + 256);
        if self.lines > 0 {
            out += &format!("\x1b[{}A", self.lines);
        }
        out += "\r";
        out += NO_WRAP;
        for line in shown {
            out += line;
            out += "\x1b[K\n";
        }
        // Lines that are no longer there.
        out += "\x1b[J";
        out += WRAP;
        self.lines = lines.min(most);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_text_begins_where_the_first_began() {
        let mut screen = Screen::default();
        assert!(!screen.draw("a\nb\n", None).contains('A'));
        assert!(screen.draw("c\n", None).starts_with("\x1b[2A\r"));
        assert!(screen.draw("d\n", None).starts_with("\x1b[1A\r"));
    }

    #[test]
    fn a_text_too_tall_shows_its_end() {
        let mut screen = Screen::default();
        let drawn = screen.draw("one\ntwo\nthree\n", Some(3));
        assert!(!drawn.contains("one") && drawn.contains("two") && drawn.contains("three"));
        assert!(screen.draw("x\n", Some(3)).starts_with("\x1b[2A\r"));
    }
}
