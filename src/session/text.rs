//! Which texts are taken in.

/// Why a text was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// Nothing but white space.
    #[error("must not be empty")]
    Blank,
    /// Over the setting.
    #[error("is {chars} characters long, at most {chars_max} are allowed")]
    TooLong {
        /// Its length.
        chars: usize,
        /// The bound.
        chars_max: usize,
    },
    /// Something no keyboard types; line breaks and tabs are fine.
    #[error("contains the control character U+{0:04X}")]
    Control(u32),
}

/// Checks what somebody said before it is stored.
pub fn check_text(text: &str, chars_max: usize) -> Result<(), TextError> {
    if text.trim().is_empty() {
        return Err(TextError::Blank);
    }
    // A text has at most as many characters as bytes, so most need no counting.
    if text.len() > chars_max {
        let chars = text.chars().count();
        if chars > chars_max {
            return Err(TextError::TooLong { chars, chars_max });
        }
    }
    let odd = |c: &char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
    match text.chars().find(odd) {
        Some(c) => Err(TextError::Control(c as u32)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_checked_at_their_bounds() {
        assert_eq!(check_text("één\n\tregel", 11), Ok(()));
        assert_eq!(check_text("ééé", 2), Err(TextError::TooLong { chars: 3, chars_max: 2 }));
        assert_eq!(check_text("ééé", 3), Ok(()));
        assert_eq!(check_text(" \n", 10), Err(TextError::Blank));
        assert_eq!(check_text("a\u{0}b", 10), Err(TextError::Control(0)));
    }
}
