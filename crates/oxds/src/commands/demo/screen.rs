//! Text that is redrawn in place on a terminal.

/// Makes the terminal cut long lines instead of wrapping them, so that lines can be counted.
const NO_WRAP: &str = "\x1b[?7l";
const WRAP: &str = "\x1b[?7h";

/// Area of the terminal that is redrawn.
#[derive(Debug, Default)]
pub(super) struct Screen {
    /// Number of lines drawn last.
    lines: usize,
}

impl Screen {
    /// Returns the output that replaces the last text by `text`. If `text` is taller than the terminal,
    /// only its end is drawn, which has the latest messages.
    pub(super) fn draw(&mut self, text: &str, rows: Option<usize>) -> String {
        // One row is for the cursor.
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
        // Clears the rest of a taller text.
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
    fn second_text_replaces_the_first() {
        let mut screen = Screen::default();
        assert!(!screen.draw("a\nb\n", None).contains('A'));
        assert!(screen.draw("c\n", None).starts_with("\x1b[2A\r"));
        assert!(screen.draw("d\n", None).starts_with("\x1b[1A\r"));
    }

    #[test]
    fn too_tall_text_shows_its_end() {
        let mut screen = Screen::default();
        let drawn = screen.draw("one\ntwo\nthree\n", Some(3));
        assert!(!drawn.contains("one") && drawn.contains("two") && drawn.contains("three"));
        assert!(screen.draw("x\n", Some(3)).starts_with("\x1b[2A\r"));
    }
}
