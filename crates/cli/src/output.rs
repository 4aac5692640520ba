//! Where an answer goes, and in which form (AU-130): `-o FORM`, `-o FORM=FILE` for a file, or `--output-file FILE`.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::ValueEnum;

use crate::failure::Failure;

/// A form, and the file for it; standard output without one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Output<F> {
    pub(crate) form: F,
    pub(crate) file: Option<PathBuf>,
}

impl<F: ValueEnum> FromStr for Output<F> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, file) = match text.split_once('=') {
            Some((_, "")) => return Err("the name of the file is missing after =".to_owned()),
            Some((name, file)) => (name, Some(PathBuf::from(file))),
            None => (text, None),
        };
        let form = F::from_str(name, false).map_err(|_| {
            let values = F::value_variants().iter().filter_map(ValueEnum::to_possible_value);
            let names: Vec<String> = values.map(|value| value.get_name().to_owned()).collect();
            format!("must be one of {}, or FORM=FILE", names.join(", "))
        })?;
        Ok(Self { form, file })
    }
}

impl<F: Copy> Output<F> {
    /// Writes the answer with `print`. A file is made anew.
    ///
    /// # Errors
    /// The output cannot be written.
    pub(crate) fn write(&self, print: &dyn Fn(F, &mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
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

/// The forms of an answer with their files, from `-o` and `--output-file`. At most one form goes to standard output: two would be
/// one text that is neither.
///
/// # Errors
/// Several forms have no file of their own, or `--output-file` was given and no form is left for it.
pub(crate) fn all<F: Copy>(given: &[Output<F>], file: Option<&Path>) -> Result<Vec<Output<F>>, Failure> {
    let without_file = given.iter().filter(|output| output.file.is_none()).count();
    match (without_file, file) {
        (0, Some(_)) => {
            return Err(Failure::input("--output-file: every form has a file already: give it with -o FORM"));
        }
        (0 | 1, _) => {}
        (_, None) => {
            return Err(Failure::input(
                "-o: several forms go to standard output: write all but one as -o FORM=FILE",
            ));
        }
        (_, Some(_)) => {
            return Err(Failure::input(
                "-o: several forms go to --output-file: write all but one as -o FORM=FILE",
            ));
        }
    }
    let with_file = |output: &Output<F>| Output {
        form: output.form,
        file: output.file.clone().or_else(|| file.map(Path::to_owned)),
    };
    Ok(given.iter().map(with_file).collect())
}
