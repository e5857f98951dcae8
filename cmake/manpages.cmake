# Makes the manual pages, as what is built is installed or packed. The private environment's Python has the packages
# that those of the commands need; any other makes that of the settings.
function(hak_make_manual_pages source folder)
    find_program(HAK_PAGES_PYTHON NAMES python3 HINTS ${source}/.venv/bin NO_CACHE)
    set(said "no manual pages: there is no python3")
    file(REMOVE_RECURSE ${folder})
    if(HAK_PAGES_PYTHON)
        execute_process(COMMAND ${HAK_PAGES_PYTHON} -B ${source}/packaging/manpages.py --gzip ${folder}
            ERROR_VARIABLE said ERROR_STRIP_TRAILING_WHITESPACE)
    endif()
    if(said)
        message(WARNING "${said}")
    endif()
endfunction()
