# bash completion for glovebox. tools/gen-docs --check wants every option of the program in it.

_glovebox_files() # [-d]
{
    local IFS=$'\n'
    compopt -o filenames 2>/dev/null
    COMPREPLY=($(compgen "${1:--f}" -- "$cur"))
}

_glovebox()
{
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} word i subject=
    COMPREPLY=()

    if ((COMP_CWORD == 1)); then
        COMPREPLY=($(compgen -W "run serve call tools approvals audit doctor selftest config --help -h --version" -- "$cur"))
        return
    fi
    case ${COMP_WORDS[1]} in
    config)
        if [[ $prev == --set || $prev == --principal || $prev == --tool ]]; then
            return
        elif [[ $cur == -* ]]; then
            COMPREPLY=($(compgen -W "--set --principal --tool --json --help -h" -- "$cur"))
        elif [[ $prev == config ]]; then
            COMPREPLY=($(compgen -W "check show key --help -h" -- "$cur"))
        elif [[ " ${COMP_WORDS[*]} " != *" key "* ]]; then
            _glovebox_files
        fi
        return
        ;;
    audit)
        [[ $prev == "=" ]] && prev=${COMP_WORDS[COMP_CWORD - 2]}
        case $prev in
        --dir) _glovebox_files -d ;;
        --limit | --principal | --since | --head) ;;
        audit) COMPREPLY=($(compgen -W "list show verify export --help -h" -- "$cur")) ;;
        *) COMPREPLY=($(compgen -W "--dir --limit --principal --since --head --json --help -h" -- "$cur")) ;;
        esac
        return
        ;;
    approvals)
        [[ $prev == "=" ]] && prev=${COMP_WORDS[COMP_CWORD - 2]}
        case $prev in
        --key-file) _glovebox_files ;;
        --reason | --url | show | approve | deny) ;;
        approvals) COMPREPLY=($(compgen -W "list show approve deny --help -h" -- "$cur")) ;;
        *) COMPREPLY=($(compgen -W "--reason --url --key-file --json --help -h" -- "$cur")) ;;
        esac
        return
        ;;
    tools)
        [[ $prev == "=" ]] && prev=${COMP_WORDS[COMP_CWORD - 2]}
        case $prev in
        --key-file) _glovebox_files ;;
        --url | show) ;;
        tools) COMPREPLY=($(compgen -W "list show --help -h" -- "$cur")) ;;
        *) COMPREPLY=($(compgen -W "--url --key-file --json --help -h" -- "$cur")) ;;
        esac
        return
        ;;
    call)
        [[ $prev == "=" ]] && prev=${COMP_WORDS[COMP_CWORD - 2]}
        case $prev in
        --key-file) _glovebox_files ;;
        --arguments | --approval | --url | call) ;;
        *) COMPREPLY=($(compgen -W "--arguments --approval --no-wait --url --key-file --json --help -h" -- "$cur")) ;;
        esac
        return
        ;;
    doctor | selftest)
        COMPREPLY=($(compgen -W "--json --help -h" -- "$cur"))
        return
        ;;
    serve)
        [[ $prev == "=" ]] && prev=${COMP_WORDS[COMP_CWORD - 2]}
        case $prev in
        --config) _glovebox_files ;;
        --listen | --set) ;;
        *) COMPREPLY=($(compgen -W "--config --listen --set --check --help -h" -- "$cur")) ;;
        esac
        return
        ;;
    run) ;;
    *) return ;;
    esac

    # Behind the subject everything is the program's own.
    for ((i = 2; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        case $word in
        --) subject=$i && break ;;
        --json | --replace | --help | -h) ;;
        -*)
            # With = the word list has three words: the name, =, the value.
            [[ ${COMP_WORDS[i + 1]} == "=" ]] && ((i++))
            ((i++))
            ;;
        *) subject=$i && break ;;
        esac
    done
    if [[ -n $subject ]]; then
        if ((COMP_CWORD == subject + 1)) && [[ ${COMP_WORDS[subject]} == "--" ]]; then
            COMPREPLY=($(compgen -c -- "$cur"))
        else
            _glovebox_files
        fi
        return
    fi

    if [[ $cur == "=" ]]; then
        cur=
    elif [[ $prev == "=" ]]; then
        prev=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    case $prev in
    --lang) COMPREPLY=($(compgen -W "python bash sh node" -- "$cur")) ;;
    --backend) COMPREPLY=($(compgen -W "native" -- "$cur")) ;;
    --allow-degraded) COMPREPLY=($(compgen -W "cgroup ns-cgroup no-nested-userns landlock" -- "$cur")) ;;
    --env) COMPREPLY=($(compgen -e -- "$cur")) ;;
    --file | --stdin) _glovebox_files ;;
    --out-dir | --mount | --writable | --rootfs) _glovebox_files -d ;;
    -c | --out | --cgroup-parent | --timeout-seconds | --max-cpu-seconds | --max-cpu-percent | --max-memory-mb | --max-disk-mb | \
        --max-pids | --max-open-files | --max-output-bytes) ;;
    *)
        if [[ $cur == -* ]]; then
            COMPREPLY=($(compgen -W "-c --lang --file --stdin --env --out --out-dir --replace --json --mount --writable --rootfs
                --backend --cgroup-parent --allow-degraded --timeout-seconds --max-cpu-seconds --max-cpu-percent
                --max-memory-mb --max-disk-mb --max-pids --max-open-files --max-output-bytes --help -h --" -- "$cur"))
        else
            _glovebox_files
        fi
        ;;
    esac
}

complete -F _glovebox glovebox
