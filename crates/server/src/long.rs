//! Transactions that take their time before the writer is asked.

use mainstay::{BranchCommand, Command, Step, Transaction};

/// Whether submitting a transaction would hold up whoever else uses the thread: a merge looks for what
/// changed first, also one that runs only if a guard fails.
pub(crate) fn is_long(transaction: &Transaction) -> bool {
    let is_merge =
        |step: &Step| matches!(step.command, Command::Branch(BranchCommand::Merge { .. }));
    let otherwise = transaction.otherwise.iter().flatten();
    transaction.steps.iter().chain(otherwise).any(is_merge)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstay::{CellCommand, MAIN, MergeStrategy, Name};

    #[test]
    fn a_merge_is_long_wherever_it_stands() {
        let name = |name| Name::new(name).unwrap();
        let strategy = MergeStrategy::Theirs;
        let merge = BranchCommand::Merge { from: name("a"), into: name("b"), strategy };
        let short = Transaction::on(MAIN).step(CellCommand::Get { name: name("x") });
        let merging = Transaction::on(MAIN).step(merge);
        assert!(!is_long(&short) && is_long(&merging));
        assert!(is_long(&short.otherwise(merging.steps.into_vec())));
    }
}
