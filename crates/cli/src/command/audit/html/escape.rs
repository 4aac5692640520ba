//! Text in HTML. Names of objects are hostile: they may hold markup, and characters that hide or turn the text around them.

/// A name that is longer is shown with its whole text in a title.
const LONG_NAME: usize = 60;

/// The characters that a reader cannot see, or that turn the text around them; ranges with both ends. `text.js` has the same ones.
const HIDDEN: [(char, char); 17] = [
    ('\0', '\u{1f}'),
    ('\u{7f}', '\u{9f}'),
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff9}', '\u{fffb}'),
    ('\u{e0000}', '\u{e0fff}'),
];

fn is_hidden(c: char) -> bool {
    HIDDEN.iter().any(|(first, last)| (*first..=*last).contains(&c))
}

fn push(out: &mut String, c: char) {
    match c {
        '&' => out.push_str("&amp;"),
        '<' => out.push_str("&lt;"),
        '>' => out.push_str("&gt;"),
        '"' => out.push_str("&quot;"),
        '\'' => out.push_str("&#39;"),
        '\r' => out.push_str("&#13;"),
        '\n' => out.push_str("&#10;"),
        '\t' => out.push_str("&#9;"),
        '\0' => out.push('\u{fffd}'),
        c => out.push(c),
    }
}

/// Text between double quotes, in an attribute that is not shown: nothing but the escaping changes.
pub(super) fn attribute(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    value.chars().for_each(|c| push(&mut out, c));
    out
}

/// Text of an element. Hidden characters become marks that can be seen.
pub(super) fn text(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for c in value.chars() {
        match is_hidden(c) {
            true => out.push_str(&format!("<span class=u>U+{:04X}</span>", u32::from(c))),
            false => push(&mut out, c),
        }
    }
    out
}

/// Text with code between backticks, as the rules are written.
pub(super) fn marked(value: &str) -> String {
    let parts: Vec<&str> = value.split('`').collect();
    // A backtick without another one is itself.
    let (pairs, rest) = match parts.len() % 2 {
        1 => (parts.as_slice(), None),
        _ => (parts.get(..parts.len().saturating_sub(1)).unwrap_or_default(), parts.last()),
    };
    let html = pairs.iter().enumerate().map(|(place, part)| match place % 2 {
        1 => format!("<code>{}</code>", text(part)),
        _ => text(part),
    });
    let rest = rest.map(|rest| format!("`{}", text(rest)));
    html.chain(rest).collect()
}

/// Text of several lines, as in a patch: line feeds stay.
pub(super) fn text_lines(value: &str) -> String {
    value.split('\n').map(text).collect::<Vec<String>>().join("\n")
}

/// Text between double quotes, in an attribute that is shown.
fn shown(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for c in value.chars() {
        match is_hidden(c) {
            true => out.push_str(&format!("[U+{:04X}]", u32::from(c))),
            false => push(&mut out, c),
        }
    }
    out
}

/// A name of an object. A short one of visible ASCII cannot turn or stretch the text around it; any other is kept apart.
pub(super) fn name(value: &str) -> String {
    let is_long = value.chars().nth(LONG_NAME).is_some();
    if !is_long && value.is_ascii() && !value.chars().any(is_hidden) {
        return attribute(value);
    }
    let title = if is_long { format!(" title=\"{}\"", shown(value)) } else { String::new() };
    format!("<bdi{title}>{}</bdi>", text(value))
}

/// A part of a fragment: all bytes but letters, digits and `- . _ ~` in percent form.
pub(super) fn fragment(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// A number with commas.
pub(super) fn number(value: usize) -> String {
    let digits = value.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && digits.len().saturating_sub(place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A number of nodes in words.
pub(super) fn nodes(count: usize) -> String {
    match count {
        1 => "1 node".to_owned(),
        count => format!("{} nodes", number(count)),
    }
}

#[cfg(test)]
mod tests {
    use super::{attribute, fragment, marked, name, number, text, text_lines};

    #[test]
    fn code_is_between_two_backticks() {
        assert_eq!(marked("a `b<` c"), "a <code>b&lt;</code> c");
        assert_eq!(marked("`a` `b"), "<code>a</code> `b");
        assert_eq!(marked("a`"), "a`");
        assert_eq!(marked(""), "");
    }

    #[test]
    fn markup_and_hidden_characters_are_text() {
        assert_eq!(text("<b a='\"'>&"), "&lt;b a=&#39;&quot;&#39;&gt;&amp;");
        assert_eq!(text("a\u{202e}b"), "a<span class=u>U+202E</span>b");
        assert_eq!(text_lines("a\nb\tc"), "a\nb<span class=u>U+0009</span>c");
        assert_eq!(attribute("a\nb\0"), "a&#10;b\u{fffd}");
    }

    #[test]
    fn names_that_are_long_or_not_ascii_are_kept_apart() {
        assert_eq!(name("web-1"), "web-1");
        assert_eq!(name("ü"), "<bdi>ü</bdi>");
        let long = "x".repeat(61);
        assert_eq!(name(&long), format!("<bdi title=\"{long}\">{long}</bdi>"));
        assert_eq!(name(&"x".repeat(60)), "x".repeat(60));
    }

    #[test]
    fn fragments_and_numbers() {
        assert_eq!(fragment("a/b ü~"), "a%2Fb%20%C3%BC~");
        assert_eq!([0, 999, 1000, 1_234_567].map(number), ["0", "999", "1,000", "1,234,567"]);
    }
}
