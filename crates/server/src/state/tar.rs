//! Reads and writes tar archives, as streams: regular files alone. Nothing is unpacked to disk.
//!
//! What is read: the formats ustar, GNU and pax, as `tar czf` writes them. What is written: ustar, with a pax header where a name
//! is too long for it; the same files give the same bytes.

use std::io::{self, Read, Write};

/// The size of a block.
const BLOCK: usize = 512;
/// The longest name that is read, and the longest pax header.
const LONGEST_NAME: u64 = 64 << 10;
/// The number of entries that are read.
const MOST_ENTRIES: usize = 200_000;
/// The longest name in a header of its own.
const SHORT_NAME: usize = 100;

type Block = [u8; BLOCK];

/// Receives a file: its name, its content and its size.
pub(super) type TakeEntry<'t, E> = dyn FnMut(&str, &mut dyn Read, u64) -> Result<(), E> + 't;

/// Passes the name, the content and the size of each regular file to `take`, in order. What `take` leaves unread is skipped.
///
/// # Errors
/// The archive is damaged or ends early, or what `take` returns.
pub(super) fn each<E>(
    reader: &mut dyn Read,
    damaged: impl Fn(String) -> E,
    take: &mut TakeEntry<'_, E>,
) -> Result<(), E> {
    let mut long_name = None;
    for _ in 0..MOST_ENTRIES {
        let Some(header) = Header::read(reader).map_err(&damaged)? else { return Ok(()) };
        let padding = header.size.next_multiple_of(BLOCK as u64).saturating_sub(header.size);
        let mut content = reader.take(header.size);
        match header.kind {
            b'0' | 0 | b'7' => {
                let name = long_name.take().unwrap_or(header.name);
                take(&name, &mut content, header.size)?;
            }
            // The name of the next entry: of GNU, and of pax.
            b'L' => long_name = Some(text(&mut content, header.size).map_err(&damaged)?),
            b'x' => {
                let records = text(&mut content, header.size).map_err(&damaged)?;
                long_name = pax_path(&records).map_err(&damaged)?.or(long_name);
            }
            // Directories, and headers for all that follows.
            b'5' | b'g' => long_name = None,
            kind => {
                let what = char::from(kind);
                return Err(damaged(format!(
                    "the entry {:?} is a link or a device (type {what:?}): archive regular files alone",
                    header.name
                )));
            }
        }
        let rest = content.limit().saturating_add(padding);
        skip(reader, rest).map_err(&damaged)?;
    }
    Err(damaged(format!("more than {MOST_ENTRIES} entries")))
}

struct Header {
    name: String,
    size: u64,
    kind: u8,
}

impl Header {
    /// The next header; none at the end mark.
    fn read(reader: &mut dyn Read) -> Result<Option<Self>, String> {
        let mut block: Block = [0; BLOCK];
        fill(reader, &mut block)?;
        if block.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let bytes =
            |from: usize, length: usize| block.get(from..from.saturating_add(length)).unwrap_or_default();
        if octal(bytes(148, 8)) != Some(checksum(&block)) {
            return Err("no tar archive, or a damaged one: the checksum of an entry is wrong".to_owned());
        }
        let name = string(bytes(0, SHORT_NAME));
        // The prefix is one of ustar alone: GNU has other things there.
        let prefix = if bytes(257, 6) == b"ustar\0" { string(bytes(345, 155)) } else { String::new() };
        let size = octal(bytes(124, 12)).ok_or("a damaged tar archive: an entry has no size")?;
        let kind = bytes(156, 1).first().copied().unwrap_or_default();
        let name = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
        Ok(Some(Self { name, size, kind }))
    }
}

/// The sum of the bytes, those of the checksum itself as spaces.
fn checksum(block: &Block) -> u64 {
    let byte = |(at, byte): (usize, &u8)| u64::from(if (148..156).contains(&at) { b' ' } else { *byte });
    block.iter().enumerate().map(byte).sum()
}

/// The text before the first zero.
fn string(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
}

fn octal(bytes: &[u8]) -> Option<u64> {
    let digits = string(bytes);
    u64::from_str_radix(digits.trim_matches(' '), 8).ok()
}

/// The path in the records of a pax header, each `LENGTH KEY=VALUE\n`.
fn pax_path(mut records: &str) -> Result<Option<String>, String> {
    let damaged = || "a damaged pax header".to_owned();
    let mut path = None;
    while !records.is_empty() {
        let (length, _) = records.split_once(' ').ok_or_else(damaged)?;
        let length: usize = length.parse().map_err(|_| damaged())?;
        let (record, rest) = records.split_at_checked(length).ok_or_else(damaged)?;
        let (_, record) = record.split_once(' ').ok_or_else(damaged)?;
        let (key, value) =
            record.strip_suffix('\n').and_then(|record| record.split_once('=')).ok_or_else(damaged)?;
        match key {
            "path" => path = Some(value.to_owned()),
            "size" => return Err("an entry of more than 8 GiB".to_owned()),
            _ => {}
        }
        records = rest;
    }
    Ok(path)
}

fn text(content: &mut dyn Read, size: u64) -> Result<String, String> {
    if size > LONGEST_NAME {
        return Err(format!("the name of an entry has {size} bytes"));
    }
    let mut bytes = vec![0; usize::try_from(size).unwrap_or_default()];
    fill(content, &mut bytes)?;
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    String::from_utf8(bytes).map_err(|_| "the name of an entry is not UTF-8".to_owned())
}

fn fill(reader: &mut dyn Read, bytes: &mut [u8]) -> Result<(), String> {
    reader.read_exact(bytes).map_err(|error| describe(&error))
}

fn skip(reader: &mut dyn Read, length: u64) -> Result<(), String> {
    let skipped = io::copy(&mut reader.take(length), &mut io::sink()).map_err(|error| describe(&error))?;
    if skipped == length { Ok(()) } else { Err(describe(&io::ErrorKind::UnexpectedEof.into())) }
}

/// What is wrong with compressed or archived bytes.
pub(super) fn describe(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "ends early: it is truncated, write it again".to_owned(),
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => format!("is damaged: {error}"),
        _ => format!("cannot be read: {error}"),
    }
}

/// Writes a tar archive. Files belong to root, only their owner may read them, and they are of 1970.
pub struct Writer<W: Write> {
    out: W,
}

impl<W: Write> Writer<W> {
    /// Begins an archive.
    pub fn new(out: W) -> Self {
        Self { out }
    }

    /// Adds a file.
    ///
    /// # Errors
    /// It cannot be written, or is larger than tar allows.
    pub fn file(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        if name.len() <= SHORT_NAME {
            return self.entry(name, b'0', content);
        }
        self.entry("pax", b'x', pax_record(name).as_bytes())?;
        let end = (0..=SHORT_NAME).rev().find(|end| name.is_char_boundary(*end)).unwrap_or_default();
        self.entry(name.get(..end).unwrap_or_default(), b'0', content)
    }

    /// Writes the end mark, and returns what it was written to.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.write_all(&[0; BLOCK * 2])?;
        Ok(self.out)
    }

    fn entry(&mut self, name: &str, kind: u8, content: &[u8]) -> io::Result<()> {
        let size = format!("{:011o}\0", content.len());
        if size.len() > 12 {
            return Err(io::Error::other("the file is larger than 8 GiB"));
        }
        let mut block: Block = [0; BLOCK];
        let fields: [(usize, &[u8]); 9] = [
            (0, name.as_bytes()),
            (100, b"0000600\0"),
            (108, b"0000000\0"),
            (116, b"0000000\0"),
            (124, size.as_bytes()),
            (136, b"00000000000\0"),
            (156, &[kind]),
            (257, b"ustar\0"),
            (263, b"00"),
        ];
        for (at, bytes) in fields {
            put(&mut block, at, bytes);
        }
        let sum = format!("{:06o}\0 ", checksum(&block));
        put(&mut block, 148, sum.as_bytes());
        self.out.write_all(&block)?;
        self.out.write_all(content)?;
        let padding = content.len().next_multiple_of(BLOCK).saturating_sub(content.len());
        self.out.write_all([0; BLOCK].get(..padding).unwrap_or_default())
    }
}

fn put(block: &mut Block, at: usize, bytes: &[u8]) {
    if let Some(field) = block.get_mut(at..at.saturating_add(bytes.len())) {
        field.copy_from_slice(bytes);
    }
}

/// The record of a path: its length counts itself.
fn pax_record(path: &str) -> String {
    let rest = format!(" path={path}\n");
    let mut length = rest.len();
    loop {
        let record = format!("{length}{rest}");
        if record.len() == length {
            return record;
        }
        length = record.len();
    }
}
