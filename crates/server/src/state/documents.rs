//! Passes on the objects of files as texts, whatever their kinds are. Never decodes an object.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::{Path, PathBuf};

use portcullis_apimachinery::json::JsonError;

use super::error::StateError;
use super::files::Format;
use super::split::{Pieces, split, start_of};
use super::texts::each_text;
use super::{decode, parallel, yaml};

/// One object of a file, of any kind.
#[derive(Clone, Copy, Debug)]
pub struct Document<'t> {
    /// Its `apiVersion`.
    pub api_version: &'t str,
    /// Its `kind`.
    pub kind: &'t str,
    /// The object in JSON.
    pub json: &'t str,
    /// The file.
    pub path: &'t Path,
    /// The line where it begins, from 1.
    pub line: usize,
}

/// An error in an object: the field and the reason.
pub type Fault = (String, String);

/// Passes every object of the files to `take`, in order, and returns the number of files.
///
/// # Errors
/// See [`super::load`]; also errors that `take` returns.
pub fn documents(
    paths: &[PathBuf],
    take: &mut dyn FnMut(Document<'_>) -> Result<(), Fault>,
) -> Result<usize, StateError> {
    each_file(paths, &mut |file| {
        let pieces = &file.pieces.pieces;
        let before = pieces.first().map_or(0, |first| start_of(file.text, first.text));
        file.each(0..pieces.len(), file.lines(0, before).saturating_add(1), take)
    })
}

/// Reads every object of the files with `read`, on this many threads, and passes the results to `take`, in the order of the files.
/// Returns the number of files.
///
/// # Errors
/// See [`super::load`]; also errors that `read` or `take` returns, of which the first in the order of the files counts.
pub fn read_documents<T: Send>(
    paths: &[PathBuf],
    threads: NonZeroUsize,
    read: &(dyn Fn(Document<'_>) -> Result<T, Fault> + Sync),
    take: &mut dyn FnMut(T) -> Result<(), Fault>,
) -> Result<usize, StateError> {
    each_file(paths, &mut |file| {
        let lines = file.lines_of_chunks();
        let read_chunk = |places: Range<usize>| {
            let line = lines.get(places.start / parallel::CHUNK).copied().unwrap_or(1);
            let mut found = Vec::with_capacity(places.len());
            let outcome = file.each(places, line, &mut |document| {
                found.push(read(document)?);
                Ok(())
            });
            (found, outcome)
        };
        let mut taken = 0_usize;
        parallel::each_chunk(file.pieces.pieces.len(), threads, read_chunk, |(found, outcome)| {
            for object in found {
                take(object).map_err(|fault| file.fault(taken, fault))?;
                taken = taken.saturating_add(1);
            }
            outcome
        })
    })
}

/// The text of a file, and its objects.
struct File<'t> {
    path: &'t Path,
    text: &'t str,
    pieces: &'t Pieces<'t>,
}

impl File<'_> {
    /// Passes the objects at these places to `take`. `line` is that of the first one.
    fn each(
        &self,
        places: Range<usize>,
        mut line: usize,
        take: &mut dyn FnMut(Document<'_>) -> Result<(), Fault>,
    ) -> Result<(), JsonError> {
        let mut at = None;
        for place in places {
            let Some(piece) = self.pieces.pieces.get(place).copied() else { break };
            let (api_version, kind) = decode::type_of(self.text, self.pieces, piece)?;
            let start = start_of(self.text, piece.text);
            line = line.saturating_add(self.lines(at.unwrap_or(start), start));
            at = Some(start);
            let document =
                Document { api_version: &api_version, kind: &kind, json: piece.text, path: self.path, line };
            take(document).map_err(|fault| self.fault(place, fault))?;
        }
        Ok(())
    }

    /// The number of lines that end between two offsets.
    fn lines(&self, from: usize, to: usize) -> usize {
        self.text.get(from..to).unwrap_or_default().matches('\n').count()
    }

    /// The line of the first object of each chunk.
    fn lines_of_chunks(&self) -> Vec<usize> {
        let (mut at, mut line) = (0, 1_usize);
        let first = self.pieces.pieces.iter().step_by(parallel::CHUNK);
        let next = first.map(|piece| {
            let start = start_of(self.text, piece.text);
            line = line.saturating_add(self.lines(at, start));
            at = start;
            line
        });
        next.collect()
    }

    fn fault(&self, place: usize, (field, reason): Fault) -> JsonError {
        match self.pieces.pieces.get(place) {
            Some(piece) => decode::fault(self.text, *piece, &field, reason),
            None => JsonError::at(self.text, 1, &field, reason),
        }
    }
}

/// Passes every file with objects to `take`, in order, and returns how many there are.
fn each_file(
    paths: &[PathBuf],
    take: &mut dyn FnMut(&File<'_>) -> Result<(), JsonError>,
) -> Result<usize, StateError> {
    let (files, _) = each_text(paths, &mut |path, format, text| {
        let of_file = |error| StateError::of(path, error);
        let converted = match format {
            Format::Json => None,
            Format::Yaml => Some(yaml::to_json(text).map_err(of_file)?),
        };
        let text = converted.as_deref().unwrap_or(text);
        let pieces = split(text).map_err(of_file)?;
        take(&File { path, text, pieces: &pieces }).map_err(of_file)?;
        Ok(pieces.pieces.len() as u64)
    })?;
    Ok(files)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use portcullis_testkit::scratch::Scratch;

    use super::*;

    /// Writes lists of ConfigMaps, and returns the files. Each object has lines of its own.
    fn files(folder: &Path, counts: &[usize]) -> Vec<PathBuf> {
        let write = |(at, count): (usize, &usize)| {
            let one = |number: usize| {
                format!(
                    "{{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\",\n\"metadata\": {{\"name\": \"c-{at}-{number}\"}}}}"
                )
            };
            let items: Vec<String> = (0..*count).map(one).collect();
            let path = folder.join(format!("{at}.json"));
            let list = format!(
                "{{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [\n{}]}}",
                items.join(",\n")
            );
            fs::write(&path, list).unwrap();
            path
        };
        counts.iter().enumerate().map(write).collect()
    }

    #[test]
    fn threads_read_the_objects_and_lines_that_one_thread_reads_in_the_same_order() {
        let folder = Scratch::new();
        let paths = files(folder.path(), &[1, 2000, 0, 513]);
        let form = |document: Document<'_>| {
            format!("{}:{}: {} {}", document.path.display(), document.line, document.kind, document.json)
        };
        let mut expected = Vec::new();
        documents(&paths, &mut |document| {
            expected.push(form(document));
            Ok(())
        })
        .unwrap();
        assert_eq!(expected.len(), 2514);
        assert!(expected[1].contains("1.json:2: ConfigMap") && expected[2000].contains("1.json:4000: "));
        for threads in [1, 2, 5] {
            let mut found = Vec::new();
            let count = read_documents(
                &paths,
                NonZeroUsize::new(threads).unwrap(),
                &|document| Ok(form(document)),
                &mut |text| {
                    found.push(text);
                    Ok(())
                },
            );
            assert_eq!((count.unwrap(), &found), (4, &expected), "{threads} threads");
        }
    }

    #[test]
    fn of_several_errors_the_first_in_the_file_is_returned() {
        let folder = Scratch::new();
        let paths = files(folder.path(), &[3000]);
        let bad = |name: &'static str| move |text: &str| text.contains(&format!("\"{name}\""));
        for (read_fails, take_fails) in [("c-0-900", "c-0-2900"), ("c-0-2900", "c-0-900")] {
            let fault = || ("metadata.name".to_owned(), "is bad".to_owned());
            let (in_read, in_take) = (bad(read_fails), bad(take_fails));
            let error = read_documents(
                &paths,
                NonZeroUsize::new(3).unwrap(),
                &|document| if in_read(document.json) { Err(fault()) } else { Ok(document.json.to_owned()) },
                &mut |text| if in_take(&text) { Err(fault()) } else { Ok(()) },
            )
            .unwrap_err()
            .to_string();
            assert!(error.ends_with("0.json:1802: items[900].metadata.name: is bad"), "{error}");
        }
    }
}
