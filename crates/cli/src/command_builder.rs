//! Builder for the words of a RESP command.

/// The words of a command.
#[derive(Clone, Debug)]
pub struct CommandBuilder(Vec<Vec<u8>>);

impl CommandBuilder {
    /// Starts a command without arguments.
    pub fn new(command: &str) -> CommandBuilder {
        CommandBuilder(vec![command.into()])
    }

    /// Adds an argument.
    #[must_use]
    pub fn word(mut self, word: impl AsRef<[u8]>) -> CommandBuilder {
        self.0.push(word.as_ref().to_vec());
        self
    }

    /// Adds a word if `applies` is true.
    #[must_use]
    pub fn flag(self, word: &str, applies: bool) -> CommandBuilder {
        if applies { self.word(word) } else { self }
    }

    /// Adds a word and its argument, if the argument is given.
    #[must_use]
    pub fn option(self, word: &str, argument: Option<impl ToString>) -> CommandBuilder {
        match argument {
            Some(argument) => self.word(word).word(argument.to_string()),
            None => self,
        }
    }

    /// The words of the command, its name first.
    pub fn words(self) -> Vec<Vec<u8>> {
        self.0
    }
}

/// The words joined by spaces, for tests.
#[cfg(test)]
pub(super) fn text_of(call: CommandBuilder) -> String {
    let words = call.words();
    let words: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
    words.join(" ")
}
