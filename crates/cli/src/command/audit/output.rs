//! Where an answer goes, and in which form (AU-130): `-o FORM`, or `-o FORM=FILE` for a file.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::str::FromStr;

use crate::failure::Failure;

/// A form of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Table,
    Wide,
    Json,
    Yaml,
    Name,
    Sarif,
    Html,
}

/// The forms by name.
const FORMS: [(&str, Form); 7] = [
    ("table", Form::Table),
    ("wide", Form::Wide),
    ("json", Form::Json),
    ("yaml", Form::Yaml),
    ("name", Form::Name),
    ("sarif", Form::Sarif),
    ("html", Form::Html),
];

impl Form {
    /// Whether it shows the files and lines of the evidence.
    pub(super) fn has_places(self) -> bool {
        !matches!(self, Self::Table | Self::Name)
    }
}

/// A form, and the file for it; standard output without one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Output {
    pub(super) form: Form,
    pub(super) file: Option<PathBuf>,
}

impl FromStr for Output {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, file) = match text.split_once('=') {
            Some((_, "")) => return Err("the name of the file is missing after =".to_owned()),
            Some((name, file)) => (name, Some(PathBuf::from(file))),
            None => (text, None),
        };
        let form = FORMS.iter().find(|(known, _)| *known == name).map(|(_, form)| *form);
        let names: Vec<&str> = FORMS.iter().map(|(name, _)| *name).collect();
        let form = form.ok_or_else(|| format!("must be one of {}, or FORM=FILE", names.join(", ")))?;
        Ok(Self { form, file })
    }
}

impl Output {
    /// Writes the answer with `print`. A file is made anew.
    ///
    /// # Errors
    /// The output cannot be written.
    pub(super) fn write(
        &self,
        print: &dyn Fn(Form, &mut dyn Write) -> io::Result<()>,
    ) -> Result<(), Failure> {
        match &self.file {
            None => {
                let mut out = BufWriter::new(io::stdout().lock());
                print(self.form, &mut out)?;
                out.flush()?;
            }
            Some(path) => {
                let failed =
                    |error| Failure::unreachable(format_args!("cannot write {}: {error}", path.display()));
                let mut out = BufWriter::new(File::create(path).map_err(failed)?);
                print(self.form, &mut out).and_then(|()| out.flush()).map_err(failed)?;
            }
        }
        Ok(())
    }
}

/// Checks that at most one form goes to standard output: two would be one text that is neither.
///
/// # Errors
/// There are several.
pub(super) fn check(outputs: &[Output]) -> Result<(), Failure> {
    match outputs.iter().filter(|output| output.file.is_none()).count() {
        0 | 1 => Ok(()),
        _ => {
            Err(Failure::input("-o: several forms go to standard output: write all but one as -o FORM=FILE"))
        }
    }
}
