# Completion of portcullis for fish.

function __portcullis_complete
    set -l before (commandline --current-process --tokenize --cut-at-cursor | string replace --regex -- '^~/' "$HOME/")
    set -l begun (commandline --current-token --cut-at-cursor)
    set -l reply ($before[1] __complete $before[2..-1] "$begun" 2>/dev/null)
    # Of --flag=VALUE the program names values.
    set -l flag (string match --regex -- '^-[^=]*=' "$begun"; or echo)
    if test (count $reply) -gt 1
        printf '%s\n' $flag$reply[1..-2]
    end
    if test "$reply[-1]" = :0
        __fish_complete_path (string replace --regex -- '^-[^=]*=' '' "$begun") | string replace --regex -- '^' "$flag"
    end
end

complete --command portcullis --no-files --arguments '(__portcullis_complete)'
