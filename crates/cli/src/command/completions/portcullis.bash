# Completion of portcullis for bash 4.4 and later.

_portcullis() {
    # bash splits words also at characters such as : and =. The program gets whole words, up to the cursor.
    local line=${COMP_LINE:0:COMP_POINT} words=() i
    for ((i = 0; i <= COMP_CWORD; i++)); do
        local word=${COMP_WORDS[i]}
        if ((i == 0)) || [[ $line == [[:space:]]* ]]; then
            line=${line#"${line%%[![:space:]]*}"}
            words+=("")
        fi
        ((i < COMP_CWORD)) || word=$line
        words[-1]+=$word
        line=${line#"$word"}
    done
    words=("${words[@]/#\~\//$HOME/}")
    local begun=${words[-1]#[\"\']}
    words[-1]=$begun

    local reply
    mapfile -t reply < <("${words[0]}" __complete "${words[@]:1}" 2>/dev/null)
    ((${#reply[@]})) || return
    [[ ${reply[-1]} == :4 ]] || compopt -o default
    COMPREPLY=("${reply[@]:0:${#reply[@]}-1}")
    COMPREPLY=("${COMPREPLY[@]%%$'\t'*}")

    # Of --flag=VALUE the program names values. bash replaces what follows the last character at which it splits.
    local flag= breaks=${COMP_WORDBREAKS//[^@=:]/} kept=
    if [[ $begun == -*=* ]]; then
        flag=${begun%%=*}=
        COMPREPLY=("${COMPREPLY[@]/#/"$flag"}")
    fi
    [[ -z $breaks || $begun != *[$breaks]* ]] || kept=${begun%"${begun##*[$breaks]}"}
    COMPREPLY=("${COMPREPLY[@]#"$kept"}")
}

complete -F _portcullis portcullis
