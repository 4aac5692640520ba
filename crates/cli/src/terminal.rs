//! The terminal: text that comes from outside, and the width.

use std::io::IsTerminal as _;

pub(crate) use portcullis_apimachinery::quote::plain;

/// The number of columns of the terminal that standard output is. None: it is no terminal.
pub(crate) fn width() -> Option<usize> {
    let out = std::io::stdout();
    let size = out.is_terminal().then(|| rustix::termios::tcgetwinsize(&out).ok())?;
    size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0)
}
