#compdef portcullis
# Completion of portcullis for zsh.

_portcullis() {
    local -a before reply entries
    before=("${(@Q)words[1,CURRENT-1]}")
    before=("${(@)before/#\~\//$HOME/}")
    reply=("${(@f)$("$before[1]" __complete "${(@)before[2,-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
    local files=$reply[-1]
    # Of --flag=VALUE the program names values.
    [[ $PREFIX != -*=* ]] || compset -P 1 '*='
    entries=("${(@)reply[1,-2]//:/\\:}")
    entries=("${(@)entries/$'\t'/:}")
    ((${#entries})) && _describe -V portcullis entries
    [[ $files != :0 ]] || _files
}

# Loaded by compinit as a function of this name, or read with `source`.
if [[ $funcstack[1] == _portcullis ]]; then
    _portcullis "$@"
else
    compdef _portcullis portcullis
fi
