//! Static tokens from a file (`--token-auth-file`, AN-60 to AN-64).

use std::fmt;
use std::sync::Arc;

use hashbrown::HashMap;
use policy::User;

/// The users of a token file. Tokens are never printed.
#[derive(Clone, Default)]
pub struct TokenFile {
    users: HashMap<Box<[u8]>, Arc<User>>,
}

impl fmt::Debug for TokenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenFile").field("tokens", &self.users.len()).finish()
    }
}

/// The token file is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenFileError {
    /// A line has too few columns (AN-61).
    #[error("line {0}: expected at least 3 columns: token,user name,user uid")]
    Columns(usize),
    /// A quote is not closed, or is in the wrong place.
    #[error("line {0}: a quote is out of place: write \"\" for a quote within quotes")]
    Quote(usize),
}

impl TokenFile {
    /// Parses `token,user,uid[,"group1,group2"]`, one line for each token (AN-60 to AN-63).
    ///
    /// # Errors
    /// See [`TokenFileError`].
    pub fn read(text: &str) -> Result<Self, TokenFileError> {
        let mut users = HashMap::new();
        for (line, record) in Records::of(text) {
            let mut columns = record.map_err(|()| TokenFileError::Quote(line))?.into_iter();
            let (Some(token), Some(name), Some(uid)) = (columns.next(), columns.next(), columns.next())
            else {
                return Err(TokenFileError::Columns(line));
            };
            if token.is_empty() {
                tracing::warn!(line, "a token is empty: the line is ignored");
                continue;
            }
            // AN-63: not trimmed, and an empty column is one group with an empty name.
            let groups = columns.next().map(|groups| groups.split(',').map(str::to_owned).collect());
            let user = User { name, uid, groups: groups.unwrap_or_default(), ..User::default() };
            if users.insert(token.into_bytes().into_boxed_slice(), Arc::new(user)).is_some() {
                tracing::warn!(line, "duplicate token: the last line is used");
            }
        }
        Ok(Self { users })
    }

    /// Returns the user of a token (AN-64).
    pub(crate) fn user(&self, token: &[u8]) -> Option<&Arc<User>> {
        self.users.get(token)
    }

    /// Changes every user.
    pub(crate) fn map(self, change: impl Fn(&mut User)) -> Self {
        let users = self.users.into_iter().map(|(token, user)| {
            let mut user = (*user).clone();
            change(&mut user);
            (token, Arc::new(user))
        });
        Self { users: users.collect() }
    }
}

/// The records of comma-separated values (RFC 4180), each with its first line. Blank lines are skipped.
struct Records<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Records<'a> {
    fn of(text: &'a str) -> Self {
        Self { rest: text, line: 1 }
    }

    /// Reads one column, and returns whether it was the last of its record.
    fn column(&mut self) -> Result<(String, bool), ()> {
        if let Some(quoted) = self.rest.strip_prefix('"') {
            self.rest = quoted;
            let mut column = String::new();
            loop {
                let (before, after) = self.rest.split_once('"').ok_or(())?;
                self.line += before.matches('\n').count();
                column.push_str(before);
                self.rest = after;
                match after.strip_prefix('"') {
                    Some(after) => {
                        column.push('"');
                        self.rest = after;
                    }
                    None => break,
                }
            }
            return self.end().map(|is_last| (column, is_last)).ok_or(());
        }
        let length = self.rest.find([',', '\n']).unwrap_or(self.rest.len());
        let (column, after) = self.rest.split_at_checked(length).ok_or(())?;
        self.rest = after;
        let column =
            if after.starts_with(',') { column } else { column.strip_suffix('\r').unwrap_or(column) };
        if column.contains('"') {
            return Err(());
        }
        let column = column.to_owned();
        self.end().map(|is_last| (column, is_last)).ok_or(())
    }

    /// Reads the end of a column, and returns whether it ends the record as well. Returns none for any other character.
    fn end(&mut self) -> Option<bool> {
        for (end, is_last) in [(",", false), ("\r\n", true), ("\n", true)] {
            if let Some(after) = self.rest.strip_prefix(end) {
                self.rest = after;
                self.line += usize::from(is_last);
                return Some(is_last);
            }
        }
        self.rest.is_empty().then_some(true)
    }
}

impl Iterator for Records<'_> {
    type Item = (usize, Result<Vec<String>, ()>);

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(after) = self.rest.strip_prefix("\r\n").or_else(|| self.rest.strip_prefix('\n')) {
            self.rest = after;
            self.line += 1;
        }
        if self.rest.is_empty() {
            return None;
        }
        let line = self.line;
        let mut columns = Vec::new();
        loop {
            match self.column() {
                Ok((column, is_last)) => {
                    columns.push(column);
                    if is_last {
                        return Some((line, Ok(columns)));
                    }
                }
                Err(()) => {
                    self.rest = "";
                    return Some((line, Err(())));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_read_as_rfc_4180_has_them_an_60_to_an_63() {
        let text = "t1,ann,u1\r\n\n t2 ,bob , u2,\"g1, g2\"\nt3,\"c\"\"d\",,\"\",more\n,nobody,u\nt1,eve,u9,";
        let file = TokenFile::read(text).unwrap();
        let user = |token: &str| file.user(token.as_bytes()).map(|user| (**user).clone());
        assert_eq!(user("t1"), Some(User { uid: "u9".into(), ..User::new("eve", [""]) }), "the last line");
        assert_eq!(user(" t2 "), Some(User { uid: " u2".into(), ..User::new("bob ", ["g1", " g2"]) }));
        assert_eq!(user("t3"), Some(User::new("c\"d", [""])));
        assert_eq!(user("t2"), None);
        assert_eq!(user(""), None);
    }

    #[test]
    fn a_file_that_cannot_be_used_says_where_an_61() {
        assert_eq!(TokenFile::read("a,b,c\n\nt,u\n").unwrap_err(), TokenFileError::Columns(3));
        assert_eq!(TokenFile::read("a,b,c\nt,\"u,x\n").unwrap_err(), TokenFileError::Quote(2));
        assert_eq!(TokenFile::read("a,b\"c,d").unwrap_err(), TokenFileError::Quote(1));
        assert!(TokenFile::read("").unwrap().users.is_empty());
    }
}
